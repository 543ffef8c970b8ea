#!/usr/bin/env bash
# duration-fns 3.0.2: between() subtracts years, months and days one by one, so the difference from the 31st of January
# to the 28th of February is a month minus three days. apply() of that to the first date ends on the 25th: it shortens
# the month first, and then goes back three days more.
# Guess: P28D (or P1M, as Temporal's largest unit), and apply() leads to the second date.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact duration-fns@3.0.2
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { apply, between, toString } from "duration-fns";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`duration-fns ${versionOf("duration-fns")}, Node ${process.version}`);
const [from, to] = ["2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"].map((text) => new Date(text));
const difference = between(from, to);
const reached = apply(from, difference).toISOString().slice(0, 10);
console.log("guess: P28D or P1M, which leads to 2026-02-28");
console.log(`seen:  ${toString(difference)}, which leads to ${reached}`);
process.exit(toString(difference) === "P1M-3D" && reached === "2026-02-25" ? 0 : 1);
JS
node look.mjs
