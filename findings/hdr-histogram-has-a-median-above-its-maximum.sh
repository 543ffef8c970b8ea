#!/usr/bin/env bash
# hdr-histogram-js 3.0.1: with one recorded value, getValueAtPercentile(50) is larger than maxValue, which is the value
# itself: percentiles are the upper end of the bucket, and the maximum is exact. The 100th percentile does the same. A
# dashboard that shows both says that half of the calls took longer than the longest.
# Guess: no percentile is above the maximum.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact hdr-histogram-js@3.0.1
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { build } from "hdr-histogram-js";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`hdr-histogram-js ${versionOf("hdr-histogram-js")}, Node ${process.version}`);
const histogram = build();
histogram.recordValue(1_234_567);
const [median, last, most] = [histogram.getValueAtPercentile(50), histogram.getValueAtPercentile(100), histogram.maxValue];
console.log("guess: 1234567, 1234567 and at most 1234567");
console.log(`seen:  median ${median}, 100th percentile ${last}, maximum ${most}`);
process.exit(median > most && most === 1_234_567 ? 0 : 1);
JS
node look.mjs
