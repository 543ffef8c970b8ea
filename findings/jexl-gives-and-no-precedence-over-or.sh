#!/usr/bin/env bash
# jexl 2.3.0: && and || have the same precedence and go from left to right, unlike in JavaScript, SQL and all that look
# like it: `true || false && false` is false. A rule such as `isAdmin || isMember && isPaid` asks of an admin, too, that
# somebody has paid. Powers go from left to right as well.
# Guess: true; 512 for 2 ^ 3 ^ 2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact jexl@2.3.0
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import jexl from "jexl";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`jexl ${versionOf("jexl")}, Node ${process.version}`);
const mayEnter = await jexl.eval("isAdmin || isMember && isPaid", { isAdmin: true, isMember: false, isPaid: false });
const power = await jexl.eval("2 ^ 3 ^ 2");
console.log("guess: true, 512");
console.log(`seen:  ${mayEnter}, ${power}`);
process.exit(mayEnter === false && power === 64 ? 0 : 1);
JS
node look.mjs
