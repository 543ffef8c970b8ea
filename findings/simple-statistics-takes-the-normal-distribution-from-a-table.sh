#!/usr/bin/env bash
# simple-statistics 7.12.1: cumulativeStdNormalProbability looks a value up in a table with steps of 0.01 and four
# digits, and probit is a rough formula. The 0.975 quantile, by which an interval of 95 % is made, is 1.957 instead of
# 1.960, and at -3.5 the probability is 0.001, four times of what it is.
# Guess: 1.95996 and 0.00023, as tables and other libraries have them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact simple-statistics@7.12.1
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { cumulativeStdNormalProbability as cumulative, probit } from "simple-statistics";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`simple-statistics ${versionOf("simple-statistics")}, Node ${process.version}`);
const [quantile, tail] = [probit(0.975), cumulative(-3.5)];
console.log("guess: 1.95996 and 0.00023");
console.log(`seen:  ${quantile.toFixed(5)} and ${tail.toFixed(5)}`);
process.exit(quantile.toFixed(3) === "1.957" && tail > 0.0009 ? 0 : 1);
JS
node look.mjs
