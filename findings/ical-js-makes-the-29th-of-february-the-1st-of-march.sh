#!/usr/bin/env bash
# ical.js 2.2.1: FREQ=YEARLY from a 29th of February comes on the 1st of March of every other year; RFC 5545 (3.3.10)
# says that a date that does not exist is left out, so it comes every fourth year. Of FREQ=MONTHLY from a 31st it does
# leave out the shorter months.
# Guess: 2024-02-29, 2028-02-29, 2032-02-29.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact ical.js@2.2.1
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import ICAL from "ical.js";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`ical.js ${versionOf("ical.js")}, Node ${process.version}`);
const datesOf = (start, rule) => {
  const iterator = ICAL.Recur.fromString(rule).iterator(ICAL.Time.fromDateString(start));
  return [1, 2, 3].map(() => iterator.next().toString());
};
const yearly = datesOf("2024-02-29", "FREQ=YEARLY").join(", ");
const monthly = datesOf("2026-01-31", "FREQ=MONTHLY").join(", ");
console.log("guess: 2024-02-29, 2028-02-29, 2032-02-29; monthly 2026-01-31, 2026-03-31, 2026-05-31");
console.log(`seen:  ${yearly}; monthly ${monthly}`);
process.exit(yearly === "2024-02-29, 2025-03-01, 2026-03-01" && monthly.endsWith("2026-05-31") ? 0 : 1);
JS
node look.mjs
