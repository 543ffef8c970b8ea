// How large Laurel is, for whoever wants to keep it small.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const filesOf = (...patterns) => globSync(patterns, { cwd: root, exclude: ["**/node_modules/**"] });
const textOf = (file) => readFileSync(join(root, file), "utf8");
const linesOf = (files) => files.reduce((sum, file) => sum + textOf(file).split("\n").length - 1, 0);
/** Terms of the glossary: rows of its tables without their heads. */
const termsOf = (text) =>
  text
    .split(/^## Glossary$/m)[1]
    .split(/^## /m)[0]
    .split("\n")
    .filter((line) => /^\| (?!Term \|)/.test(line)).length;

const docs = filesOf("{docs,.}/**/*.md").filter((file) => file.startsWith("docs/") || !file.includes("/"));
const source = filesOf("src/**/*.{ts,sql}");
const tests = filesOf("test/**/*.ts");
const thousands = (n) => n.toLocaleString("en");
const lines = (files) => `${thousands(linesOf(files))} lines`;
const terms = termsOf(textOf("docs/ARCHITECTURE.md"));
const testFiles = tests.filter((file) => file.endsWith(".test.ts")).length;
const table = [
  ["src", `${lines(source)}, ${thousands(source.length)} files`, "85,000 lines, 600 files"],
  ["test", `${lines(tests)}, ${thousands(testFiles)} files of tests`, "60,000 lines"],
  ["bench, loadtest, scripts", lines(filesOf("{bench,loadtest,scripts}/**/*.{ts,mjs,js}")), "2,500 lines"],
  [
    "console",
    lines(filesOf("console/{,src/**/}*.{ts,tsx,mjs,css,html}").filter((file) => !file.includes("generated"))),
    "9,000 lines",
  ],
  ["recorded JSON", lines(filesOf("src/http/*.json")), "0"],
  ["docs", lines(docs), "5,000 lines"],
  ["docs/ARCHITECTURE.md", `${lines(["docs/ARCHITECTURE.md"])}, ${terms} terms`, "300 lines, 25 terms"],
];
console.log("| | Now | At most |\n|---|---|---|");
for (const row of table) console.log(`| ${row.join(" | ")} |`);
