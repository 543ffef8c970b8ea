#!/usr/bin/env bash
# currency.js 2.0.4: halves of a cent are rounded up, towards plus, whatever the sign: 1.005 is 1.01, and -1.005 is
# -1.00. A charge and its refund that are computed each by itself differ by a cent; 1.01 taken back is what was wanted.
# Guess: -1.01, halves away from zero, as 1.005 was.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact currency.js@2.0.4
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import currency from "currency.js";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`currency.js ${versionOf("currency.js")}, Node ${process.version}`);
const [charge, refund] = [currency(67).multiply(0.015), currency(-67).multiply(0.015)];
console.log("guess: 1.01 and -1.01, together 0");
console.log(`seen:  ${charge.value} and ${refund.value}, together ${charge.add(refund).value}`);
process.exit(charge.value === 1.01 && refund.value === -1 ? 0 : 1);
JS
node look.mjs
