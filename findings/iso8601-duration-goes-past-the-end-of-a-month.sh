#!/usr/bin/env bash
# iso8601-duration 2.1.4: end() of one month after the 31st of January is the 3rd of March, since it raises the number
# of the month and lets Date carry the days over. Temporal, PostgreSQL and Luxon give the last day of February; a
# subscription that is renewed by it moves in the month, and never comes back.
# Guess: 2026-02-28.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact iso8601-duration@2.1.4
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { end, parse } from "iso8601-duration";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`iso8601-duration ${versionOf("iso8601-duration")}, Node ${process.version}`);
const seen = end(parse("P1M"), new Date("2026-01-31T12:00:00Z")).toISOString().slice(0, 10);
console.log("guess: 2026-02-28");
console.log(`seen:  ${seen}`);
process.exit(seen === "2026-03-03" ? 0 : 1);
JS
node look.mjs
