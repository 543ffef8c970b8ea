import assert from "node:assert/strict";
import { fieldsOf } from "../../src/http/validate.ts";
import { anAdmin } from "../support/app/admin.ts";
import { startApp, type TestApp } from "../support/app/app.ts";
import { anAddress } from "../support/http/client.ts";
import {
  HOSTILE_BODIES,
  HOSTILE_TEXTS,
  HOSTILE_VALUES,
  indecency,
  type RawRequest,
  sendRaw,
} from "../support/http/hostile.ts";
import { type Call, type Operation, operations } from "../support/operations/operations.ts";
import { aSide, type Side } from "../support/app/sides.ts";

/** Of one super-admin: fewer than a minute allows. */
const REQUESTS_PER_ADMIN = 400;
const CONCURRENCY = 8;
/** Times that JavaScript writes and the database does not read, or the other way round. */
const EDGE_TIMES = ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00%2b14:00", "9999-12-31T23:59:59-14:00"];
const EDGE_VALUES = EDGE_TIMES.map((text) => JSON.stringify(decodeURIComponent(text)));

const isOfPlatform = ({ route: { path, access } }: Operation): boolean =>
  path.includes("blog-posts") || path.startsWith("/superadmin/") || (access !== "public" && !!access.admin);
const platform = () => operations().filter(isOfPlatform);

/** `body` with the value of each place, at any depth, replaced by hostile ones. */
const spoiled = (body: unknown, known: readonly string[]): string[] => {
  const texts: string[] = [];
  const spoil = (place: object, name: string, root: object): void => {
    const kept: unknown = Reflect.get(place, name);
    Reflect.set(place, name, "\u0001");
    const shown = JSON.stringify(root);
    for (const text of [...HOSTILE_VALUES, ...EDGE_VALUES])
      texts.push(shown.replace(JSON.stringify("\u0001"), () => text));
    Reflect.set(place, name, kept);
    if (kept !== null && typeof kept === "object")
      for (const inner of Object.keys(kept)) spoil(kept, inner, root);
  };
  const root = structuredClone(body) as object;
  for (const name of new Set([...Object.keys(root), ...known])) spoil(root, name, root);
  return texts;
};

describe("hostile input to operations of the platform", function () {
  this.timeout(180_000);
  let api: TestApp;
  let side: Side;
  before(async () => {
    api = await startApp();
    side = await aSide(api);
  });

  const problems: string[] = [];
  afterEach(() => assert.deepEqual(problems.splice(0), []));

  const attack = async (requests: RawRequest[]): Promise<void> => {
    for (let at = 0; at < requests.length; at += REQUESTS_PER_ADMIN) {
      const { token } = await anAdmin(api);
      const waiting = requests.slice(at, at + REQUESTS_PER_ADMIN)[Symbol.iterator]();
      const lane = async (): Promise<void> => {
        for (const request of waiting) {
          const headers = {
            "Content-Type": "application/json",
            Authorization: `Bearer ${token}`,
            "X-Forwarded-For": anAddress(),
          };
          const answer = await sendRaw(api.url, { ...request, headers });
          const problem = indecency(answer);
          if (problem !== undefined)
            problems.push(
              `${request.method} ${request.path} ${String(request.body).slice(0, 200)}: ${problem}`,
            );
        }
      };
      await Promise.all(Array.from({ length: CONCURRENCY }, lane));
    }
  };
  const targetOf = async (operation: Operation): Promise<Call> => {
    const call = await operation.call(side, "user");
    return { ...call, path: `/api/v1${call.path}` };
  };
  const methodOf = ({ route }: Operation): string => route.method.toUpperCase();
  const withBody = (method: string, body: unknown) =>
    body === undefined || method === "GET" || method === "DELETE" ? {} : { body: JSON.stringify(body) };

  it("in a path parameter is refused or finds nothing", async () => {
    for (const operation of platform().filter(({ route }) => route.path.includes("{"))) {
      const { body } = await targetOf(operation);
      const method = methodOf(operation);
      await attack(
        HOSTILE_TEXTS.map((text) => ({
          method,
          path: `/api/v1${operation.route.path.replaceAll(/\{\w+\}/g, () => text)}`,
          ...withBody(method, body),
        })),
      );
    }
  });

  it("in a query parameter is refused or read as what it is", async () => {
    for (const operation of platform().filter(({ route }) => route.method === "get")) {
      const { path } = await targetOf(operation);
      const names = [...fieldsOf(operation.route.query), "nobody"];
      const queries = names.flatMap((name) =>
        [...HOSTILE_TEXTS, ...EDGE_TIMES].flatMap((text) => [
          `${name}=${text}`,
          `${name}=${text}&${name}=${text}`,
        ]),
      );
      await attack(queries.map((query) => ({ method: "GET", path: `${path}?${query}` })));
    }
  });

  it("in place of a body or of any of its values is refused, or stored as what it is", async () => {
    for (const operation of platform().filter(({ route }) => route.body !== undefined)) {
      const { path, body } = await targetOf(operation);
      const method = methodOf(operation);
      const bodies = [body, ...(operation.also ?? []).map((make) => make())].flatMap((valid) =>
        spoiled(valid, fieldsOf(operation.route.body)),
      );
      await attack([...HOSTILE_BODIES, ...bodies].map((text) => ({ method, path, body: text })));
    }
  });
});
