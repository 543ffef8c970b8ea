#!/usr/bin/env bash
# csv-parse 7.0.3: with `cast: true` a text that JavaScript's Number takes for one is read by parseFloat, which stops at
# the first letter. Addresses of wallets, colours and flags that begin with 0x, and numbers in binary or octal form, all
# become 0: every row of a list of wallets has the same one, and nothing is thrown.
# Guess: they stay texts, or become the number that they are.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact csv-parse@7.0.3
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { parse } from "csv-parse/sync";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`csv-parse ${versionOf("csv-parse")}, Node ${process.version}`);
const text = "value\n0xA1\n0x52908400098527886E0F7030069857D2E4169EE7\n0b101\n12\n-0x5";
const seen = JSON.stringify(parse(text, { columns: true, cast: true }).map(({ value }) => value));
console.log('guess: ["0xA1","0x5290…","0b101",12,"-0x5"] or the numbers');
console.log(`seen:  ${seen}`);
process.exit(seen === '[0,0,0,12,"-0x5"]' ? 0 : 1);
JS
node look.mjs
