import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { openApiDocument } from "../src/http/openapi.ts";
import { routes } from "../src/http/routes.ts";
import { namesIn, root, rowsIn, textOf } from "./support/documents/documents.ts";

const PAGE = "docs/SPECIFICATION.md";
const OPERATION = /^(GET|POST|PUT|PATCH|DELETE) (\/\S*)$/;
/** A table of fields and parameters, whose head says whose they are. */
const TABLE_OF_FIELDS = /^\| `([^`]+)` \| In \| Type \| Laurel \|\n((?:\|.*\n)+)/gm;
/** Where a field is: a parameter, the body or an answer, with a path inside it. */
const PLACE = /^(parameter|body|\d{3})(?: `([^`]+)`)?$/;
/** Where the specification lies beside a checkout. */
const ORIGINAL = join(root, "../shared/spec/gamification-service-api.md");

type Schema = {
  $ref?: string;
  type?: string;
  format?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  allOf?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
};

type Content = { content: Record<string, { schema: Schema }> };
type Operation = {
  parameters?: readonly (Schema & { name: string; schema: Schema })[];
  requestBody?: Content;
  responses: Record<string, Schema & Content>;
};
type Document = {
  openapi: string;
  info: { version: string };
  paths: Record<string, Record<string, Operation>>;
};

/** The texts under the headings of a Markdown document, by heading. */
const sectionsOf = (text: string): Map<string, string> =>
  new Map(
    text
      .split(/^#+ /m)
      .slice(1)
      .map((section) => {
        const [heading = ""] = section.split("\n", 1);
        return [heading, section.slice(heading.length)];
      }),
  );

/** What the first cell of a row stands for: one thing, or several that are separated. */
const firstsOf = (first: string): string[] => [first, ...first.split(", "), ...first.split("; ")];

/** What a row of a table of the specification is called in the page. */
const keyOf = (heading: string, [first = "", second = ""]: readonly string[]): string => {
  if (heading === "Operations known by method and path only") return second;
  // The table of attempts belongs to the fourth statement.
  if (heading === "Delivery") return "4.";
  return first === "(provider type)" ? "provider" : first;
};

describe("the page that goes through the specification", () => {
  const page = textOf(PAGE);
  const document = openApiDocument(routes) as unknown as Document;

  const resolved = (schema: Schema): Schema => {
    if (schema.$ref === undefined) return schema;
    const at = schema.$ref.split("/").slice(1);
    return resolved(
      at.reduce<unknown>((inside, name) => (inside as Record<string, unknown>)[name], document) as Schema,
    );
  };
  /** A schema and all that it is put together of. */
  const partsOf = (schema: Schema): Schema[] => {
    const own = resolved(schema);
    const parts = [...(own.allOf ?? []), ...(own.anyOf ?? []), ...(own.oneOf ?? [])];
    return [own, ...parts.flatMap(partsOf)];
  };
  const childOf = (schema: Schema, name: string): Schema | undefined =>
    partsOf(schema)
      .map((part) => (name === "[]" ? part.items : part.properties?.[name]))
      .find((found) => found !== undefined);
  const typeOf = (schema: Schema): string => {
    const typed = partsOf(schema).find(({ type }) => type !== undefined);
    if (typed?.type === "array") return `array of ${typeOf(childOf(typed, "[]")!)}`;
    const { type = "any", format } = typed ?? {};
    return format === undefined ? type : `${type} (${format})`;
  };
  const operationOf = (name: string): Operation | undefined => {
    const [, method = "", path = ""] = OPERATION.exec(name) ?? [];
    return document.paths[path]?.[method.toLowerCase()];
  };
  const jsonOf = ({ content }: Content): Schema => Object.values(content)[0]!.schema;
  const fieldOf = ({ responses, requestBody, parameters = [] }: Operation, place: string, field: string) => {
    const [, what = "", path = ""] = PLACE.exec(place) ?? [];
    if (what === "parameter") {
      const all = parameters.map((one) => resolved(one) as { name: string; schema: Schema });
      return all.find(({ name }) => name === field)?.schema;
    }
    const whole = jsonOf(what === "body" ? requestBody! : (resolved(responses[what]!) as Content));
    const steps = path.replaceAll("[]", ".[]").split(".").filter(Boolean);
    const parent = steps.reduce((at, step) => childOf(at, step)!, whole);
    return childOf(parent, field);
  };

  it("names only operations that there are", () => {
    const named = namesIn(page).filter((name) => OPERATION.test(name));
    assert.ok(named.length > 40);
    assert.deepEqual(
      named.filter((name) => operationOf(name) === undefined),
      [],
    );
  });

  it("names only tests that there are", () => {
    const named = [...page.matchAll(/`(test\/[^`]+)`\s+"([^"]+)"/g)];
    assert.ok(named.length > 40);
    const missing = named.filter(([, file = "", title = ""]) => {
      const text = existsSync(join(root, file)) ? textOf(file) : "";
      return !text.includes(`"${title.replaceAll(/\s+/g, " ")}"`);
    });
    assert.deepEqual(
      missing.map(([all]) => all),
      [],
    );
    assert.equal(page.match(/`test\//g)?.length, named.length, "each file with a title");
  });

  it("tells the fields, parameters and types that the operations have", () => {
    const tables = [...page.matchAll(TABLE_OF_FIELDS)];
    assert.ok(tables.length > 10);
    assert.equal(tables.length, page.match(/\| Type \| Laurel \|$/gm)?.length);
    const fields = tables.flatMap(([, operation = "", table = ""]) =>
      rowsIn(table).flatMap(([names = "", place = "", type = ""]) =>
        names.split(", ").map((field) => ({ operation, place, field, type })),
      ),
    );
    assert.ok(fields.length > 95);
    const wrong = fields.flatMap(({ operation, place, field, type }) => {
      const schema = fieldOf(operationOf(operation)!, place, field);
      const found = schema && typeOf(schema);
      return found === type ? [] : [`${operation} ${place} ${field}: ${found}, not ${type}`];
    });
    assert.deepEqual(wrong, []);
  });

  it("is of the version that the specification names", () => {
    const { version } = JSON.parse(textOf("package.json")) as { version: string };
    assert.match(version, /^0\.1\.\d+$/);
    assert.match(document.openapi, /^3\.0\./);
    assert.equal(document.info.version, "1.0.0");
  });

  it("leaves out no section, no row of a table and no numbered statement", function () {
    if (!existsSync(ORIGINAL)) return this.skip();
    const original = sectionsOf(readFileSync(ORIGINAL, "utf8"));
    const here = sectionsOf(page);
    const missing = [...original].flatMap(([heading, text]) => {
      const firsts = rowsIn(here.get(heading) ?? "").flatMap(([first = ""]) =>
        firstsOf(first.replaceAll("`", "")),
      );
      const rows = rowsIn(text).map((cells) => keyOf(heading, cells));
      const numbered = [...text.matchAll(/^(\d+)\. /gm)].map(([, n = ""]) => `${n}.`);
      const isThere = (key: string) => firsts.some((first) => first === key || first.startsWith(`${key} `));
      return [...rows, ...numbered].filter((key) => !isThere(key)).map((key) => `${heading}: ${key}`);
    });
    assert.deepEqual(missing, []);
  });
});
