#!/usr/bin/env bash
# jsonata 2.2.2: a comparison with a field that is not there is false for = and for !=, so `plan != "free"` leaves out
# whoever has no plan at all; and <, > are not false but nothing at all (undefined). $not(plan = "free") is true for
# them. A filter and its opposite together do not have everybody.
# Guess: missing is not equal to "free": true.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact jsonata@2.2.2
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import jsonata from "jsonata";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`jsonata ${versionOf("jsonata")}, Node ${process.version}`);
const players = [{ name: "ada", plan: "free" }, { name: "ben", plan: "pro" }, { name: "cleo" }];
const namesWhere = async (condition) => [await jsonata(`players[${condition}].name`).evaluate({ players })].flat().join(", ");
const [unequal, not] = [await namesWhere('plan != "free"'), await namesWhere('$not(plan = "free")')];
console.log("guess: ben, cleo in both");
console.log(`seen:  != ${unequal}; $not(=) ${not}`);
process.exit(unequal === "ben" && not === "ben, cleo" ? 0 : 1);
JS
node look.mjs
