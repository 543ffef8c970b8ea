// Takes the page's script of /docs from the installed package: `npm run reference`, after an update of it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const script = new URL("./browser/standalone.js", import.meta.resolve("@scalar/api-reference"));
const to = join(import.meta.dirname, "../src/http/reference/scalar.js.gz");
writeFileSync(to, gzipSync(readFileSync(fileURLToPath(script)), { level: 9 }));
console.log(`${to} is written`);
