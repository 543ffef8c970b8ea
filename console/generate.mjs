// Writes src/generated from the server's OpenAPI document: the address of every operation, the schemas that
// forms and filters are drawn from, and with --types also the types, which the build itself does not need.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const here = import.meta.dirname;
const out = join(here, "src/generated");
const source = join(here, "../src/main.ts");
const node = process.env.LAUREL_NODE ?? join(here, "../node_modules/.bin/node");
const document = JSON.parse(
  execFileSync(node, [source, "openapi"], { maxBuffer: 64 << 20, encoding: "utf8" }),
);

const isObject = (value) => typeof value === "object" && value !== null;
const nameOf = (ref) => ref.slice(ref.lastIndexOf("/") + 1);
const lookUp = (value) =>
  value?.$ref ? document.components[value.$ref.split("/")[2]][nameOf(value.$ref)] : value;

/** Schemas that what was kept refers to, by name. */
const schemas = {};

/** A schema without what no form shows; what it refers to is kept, too. */
const keep = (value) => {
  if (Array.isArray(value)) return value.map(keep);
  if (!isObject(value)) return value;
  if (typeof value.$ref === "string") {
    const name = nameOf(value.$ref);
    if (!(name in schemas)) {
      schemas[name] = true;
      schemas[name] = keep(document.components.schemas[name]);
    }
    return { $ref: name };
  }
  const { example: _example, examples: _examples, ...rest } = value;
  return Object.fromEntries(Object.entries(rest).map(([key, part]) => [key, keep(part)]));
};

const PAGING = new Set(["page", "limit", "cursor", "projectId"]);
const operations = {};
const bodies = {};
const queries = {};
const texts = {};

for (const [path, methods] of Object.entries(document.paths)) {
  for (const [method, { operationId: id, ...operation }] of Object.entries(methods)) {
    operations[id] = `${method.toUpperCase()} ${path}`;
    texts[id] = [operation.summary, operation.description].filter(Boolean).join("\n");
    const body = lookUp(operation.requestBody)?.content?.["application/json"]?.schema;
    if (body && method !== "get") bodies[id] = keep(body);
    const filters = (operation.parameters ?? [])
      .map(lookUp)
      .filter((one) => one.in === "query" && !PAGING.has(one.name))
      .map(({ in: _in, ...parameter }) => keep(parameter));
    if (method === "get" && filters.length > 0) queries[id] = filters;
  }
}

mkdirSync(out, { recursive: true });
const write = (file, text) => writeFileSync(join(out, file), text);
write("operations.ts", `export const OPERATIONS = ${JSON.stringify(operations, null, 2)} as const;\n`);
write("forms.json", JSON.stringify({ bodies, queries, texts, schemas }));

if (process.argv.includes("--types")) {
  const { default: openapi, astToString } = await import("openapi-typescript");
  write("api.d.ts", astToString(await openapi(document, { defaultNonNullable: false })));
}
