#!/usr/bin/env bash
# exceljs 4.4.0: files of Excel write special characters as _x plus four digits of hex and _, so a text that has this
# form itself must be escaped when it is written. exceljs does not, and replaces it when it reads: an id such as
# item_x0041_2 is another one in the file, for Excel as for exceljs.
# Guess: every text comes back as it was written.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact exceljs@4.4.0
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import ExcelJS from "exceljs";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`exceljs ${versionOf("exceljs")}, Node ${process.version}`);
const given = "item_x0041_2";
const book = new ExcelJS.Workbook();
book.addWorksheet("ids").addRow([given]);
const again = new ExcelJS.Workbook();
await again.xlsx.load(await book.xlsx.writeBuffer());
const seen = again.worksheets[0].getCell("A1").value;
console.log(`guess: ${given}`);
console.log(`seen:  ${seen}`);
process.exit(seen === "itemA2" ? 0 : 1);
JS
node look.mjs
