#!/usr/bin/env bash
# bloom-filters 3.0.4: HyperLogLog has no correction for few elements, which the paper of Flajolet and others makes up
# to 2.5 times the number of registers. With 1,024 registers 1,000 different texts are counted as about half of that;
# 100,000 are right within some percent.
# Guess: within 7 % (twice the standard error of 1,024 registers) at each size.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact bloom-filters@3.0.4
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import bloomFilters from "bloom-filters";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`bloom-filters ${versionOf("bloom-filters")}, Node ${process.version}`);
const shareOf = (texts) => {
  const counted = new bloomFilters.HyperLogLog(1024);
  for (let n = 0; n < texts; n++) counted.update(`player-${n}`);
  return counted.count() / texts;
};
const sizes = [1_000, 100_000];
const [few, many] = sizes.map(shareOf);
console.log("guess: between 0.93 and 1.07 of 1,000 and of 100,000");
console.log(`seen:  ${few.toFixed(2)} of 1,000, ${many.toFixed(2)} of 100,000`);
process.exit(few < 0.8 && many > 0.9 && many < 1.1 ? 0 : 1);
JS
node look.mjs
