#!/usr/bin/env bash
# date-fns 4.4.0 with @date-fns/tz 1.5.0: eachHourOfInterval over a day of 25 hours in a TZDate's zone returns 24
# moments: the hour that comes twice is there once, as the later of the two. What is counted per hour by these moments
# puts two hours into one. A day of 23 hours has its 23.
# Guess: 25 moments, an hour apart.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact date-fns@4.4.0 @date-fns/tz@1.5.0
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { TZDate } from "@date-fns/tz";
import { eachHourOfInterval } from "date-fns";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`date-fns ${versionOf("date-fns")}, @date-fns/tz ${versionOf("@date-fns/tz")}, Node ${process.version}`);
const hoursOf = (month, day) => {
  const at = (hour) => new TZDate(2026, month, day, hour, 0, "Europe/Berlin");
  return eachHourOfInterval({ start: at(0), end: at(23) });
};
const [autumn, spring] = [hoursOf(9, 25), hoursOf(2, 29)];
const longest = Math.max(...autumn.slice(1).map((hour, n) => (hour - autumn[n]) / 3_600_000));
console.log("guess: 25 in autumn, 23 in spring, an hour between any two");
console.log(`seen:  ${autumn.length} in autumn, ${spring.length} in spring, up to ${longest} hours between two`);
process.exit(autumn.length === 24 && longest === 2 ? 0 : 1);
JS
node look.mjs
