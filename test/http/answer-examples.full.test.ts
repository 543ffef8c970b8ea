import assert from "node:assert/strict";
import ANSWERS from "../../src/http/answer-examples.json" with { type: "json" };
import { openApiDocument } from "../../src/http/openapi.ts";
import type { AnyRoute } from "../../src/http/route.ts";
import { routes } from "../../src/http/routes.ts";
import { checkResponse } from "../support/http/openapi-check.ts";

type Media = { example?: unknown };
type Answer = { content?: Record<string, Media> };
type Document = { paths: Record<string, Record<string, { responses: Record<string, Answer> }>> };

const document = JSON.parse(JSON.stringify(openApiDocument(routes))) as Document;
/** What to do where a test of these fails. */
const ADVICE = "run `npm run examples`";
/** Characters of JSON; the recording cuts at fewer. */
const LONGEST = 3_000;

/** The successes of an operation that have a body of JSON, by status. */
const successes = ({ path, method }: AnyRoute): [status: number, media: Media][] =>
  Object.entries(document.paths[path]![method]!.responses)
    .filter(([status, { content }]) => status < "300" && content?.["application/json"] !== undefined)
    .map(([status, { content }]) => [Number(status), content!["application/json"]!]);

/** Every text of an example, names of fields among them, which may be keys of the caller's. */
const textsOf = (value: unknown): string[] => {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, one]) => [key, ...textsOf(one)]);
};

/** Long enough for a secret, and of all kinds of characters, as random text in base64 is. */
const isRandom = (word: string): boolean =>
  word.length >= 20 && [/[a-z]/, /[A-Z]/, /\d/].every((kind) => kind.test(word));

const hostsOf = (text: string): string[] =>
  [...text.matchAll(/https?:\/\/([\w.:-]+)|[\w-]+@([\w.-]+\.[a-z]+)/g)].map(([, a, b]) => a ?? b ?? "");

describe("the examples of answers", () => {
  it("are there for every success that has a body, and are as the answer is documented", () => {
    const problems: string[] = [];
    for (const route of routes) {
      for (const [status, { example }] of successes(route)) {
        if (example === undefined) problems.push(`${route.id} has no example: ${ADVICE}`);
        else
          try {
            checkResponse(document, route.method, route.path, status, example);
          } catch (error) {
            problems.push(`${route.id}: ${(error as Error).message}`);
          }
      }
    }
    assert.deepEqual(problems, []);
  });

  it("are of operations that exist, and short", () => {
    const ids = new Set(routes.map(({ id }) => id));
    const long = Object.entries(ANSWERS).filter(([, one]) => JSON.stringify(one).length > LONGEST);
    assert.deepEqual(
      long.map(([id]) => id),
      [],
    );
    assert.deepEqual(
      Object.keys(ANSWERS).filter((id) => !ids.has(id)),
      [],
      ADVICE,
    );
  });

  it("show no secret, and no host or address of anybody", () => {
    for (const [id, example] of Object.entries(ANSWERS)) {
      for (const text of textsOf(example)) {
        const words = text.match(/[\w+/-]+/g) ?? [];
        assert.deepEqual(words.filter(isRandom), [], `${id}: ${text}`);
        assert.notEqual(text, "$ref", `${id}: readers of the document would follow it`);
        assert.doesNotMatch(text, /\beyJ|\b10\.\d+\.\d+\.\d+|localhost|127\.0\.0\.1/, id);
        for (const host of hostsOf(text))
          assert.match(
            host,
            /^(?:[\w-]+\.)*(?:example\.com|json-schema\.org|stripe\.com)$/,
            `${id}: ${text}`,
          );
      }
    }
  });
});
