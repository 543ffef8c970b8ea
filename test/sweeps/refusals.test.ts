import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { SHORT_REFUSALS_EXPLAINED } from "../../src/http/item-refusals.ts";
import { takesBody } from "../../src/http/route.ts";
import { startApp, type TestApp } from "../support/app/app.ts";
import { anAdmin } from "../support/app/admin.ts";
import { must } from "../support/http/client.ts";
import { aMember } from "../support/app/member.ts";
import { type Operation, operations } from "../support/operations/operations.ts";
import { aSide, type Side } from "../support/app/sides.ts";

const LONG = "\u0001é😀".repeat(1_000);
/** Bytes of an answer to a short request. */
const SHORT = 4_096;
/** Bytes of an answer that judges items one by one, and further ones for each byte of the request. */
const ITEMISED = { bytes: 8_192, perByte: 20 };
/** Items that say little and can be refused at length. */
const BAD_ITEMS: readonly unknown[] = [
  0,
  null,
  "",
  [],
  {},
  { a: 1 },
  { playerId: "a", score: 1 },
  { externalUserId: "a" },
  { externalUserId: 1, eventType: 2, properties: 3, timestamp: 4 },
  { playerId: 1, score: "a", occurredAt: 1, meta: 2 },
  { externalUserId: "a".repeat(300), eventType: "b".repeat(300) },
  { [LONG]: LONG },
];

/** Bodies that a refusal could repeat: names, values, many problems, all of them long. */
const HOSTILE: Readonly<Record<string, unknown>> = {
  "unknown keys": { [LONG]: 1, ...Object.fromEntries(Array.from({ length: 800 }, (_, i) => [`no-${i}`, 1])) },
};

/** Every field of the operation's sample body as something else that is long. */
const mangled = (body: unknown): Record<string, unknown> => {
  const names = Object.keys(body ?? {});
  return {
    "long texts": Object.fromEntries(names.map((name) => [name, LONG])),
    "lists of wrong things": Object.fromEntries(
      names.map((name) => [name, Array.from({ length: 300 }, () => ({ [LONG.slice(0, 20)]: null }))]),
    ),
  };
};

describe("a refusal", function () {
  this.timeout(400_000);
  let api: TestApp;
  let side: Side;
  let admin: string;
  before(async () => {
    api = await startApp();
    side = await aSide(api);
    admin = (await anAdmin(api)).token;
  });

  const credentialsOf = async ({ route: { access } }: Operation) => {
    if (access === "public") return {};
    if (access.admin !== undefined) return { token: admin };
    const { tenantId, key, projectId } = side.tenant;
    // One of its own: some operations end the session that calls them.
    const { token } = await aMember(api, tenantId, "ADMIN");
    return access.scope === undefined ? { token, headers: { "X-Project-ID": projectId } } : { key };
  };
  const sizeOf = async (operation: Operation, path: string, text?: string): Promise<[number, number]> => {
    const { token, key, headers = {} } = (await credentialsOf(operation)) as Record<string, never>;
    const answer = await fetch(`${api.url}/api/v1${path}`, {
      method: operation.route.method.toUpperCase(),
      headers: {
        ...(headers as Record<string, string>),
        "X-Forwarded-For": `10.${Math.floor(Math.random() * 250)}.${Math.floor(Math.random() * 250)}.7`,
        ...(text === undefined ? {} : { "Content-Type": "application/json" }),
        ...(token === undefined ? {} : { Authorization: `Bearer ${String(token)}` }),
        ...(key === undefined ? {} : { "X-API-Key": String(key) }),
      },
      ...(text === undefined ? {} : { body: text }),
      redirect: "manual",
    });
    const bytes = (await answer.arrayBuffer()).byteLength;
    const head = [...answer.headers].reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0);
    assert.ok(head < 2_048, `${operation.route.id} has ${head} bytes of headers`);
    return [answer.status, bytes];
  };
  const pathOf = ({ route }: Operation) => route.path.replaceAll(/\{\w+\}/g, () => randomUUID());

  it("of any operation is short, whatever the body", async () => {
    let refused = 0;
    for (const operation of operations().filter(({ route }) => takesBody(route))) {
      const { body } = await operation.call(side, "key");
      for (const [what, hostile] of Object.entries({ ...HOSTILE, ...mangled(body) })) {
        const text = JSON.stringify(hostile);
        const [status, bytes] = await sizeOf(operation, pathOf(operation), text);
        if (status < 400) continue;
        refused += 1;
        assert.ok(bytes <= SHORT, `${operation.route.id}: ${bytes} bytes for ${what} (${text.length})`);
      }
    }
    assert.ok(refused > 250, `${refused} refusals`);
  });

  it("of a batch's items is no longer than a multiple of the request, and one for each", async () => {
    const batches = [
      { path: "/players/batch", name: "players", count: 500 },
      { path: "/events/batch", name: "events", count: 1_000 },
      { path: `/leaderboards/${await side.board()}/scores/batch`, name: "scores", count: 500 },
    ];
    const itemised = operations().filter(
      ({ route }) => route.itemised && route.signatureHeader === undefined,
    );
    assert.equal(itemised.length, batches.length);
    for (const { path, name, count } of batches)
      for (const item of BAD_ITEMS) {
        const items = Array.from({ length: JSON.stringify(item).length > 1_000 ? 20 : count }, () => item);
        const text = JSON.stringify({ [name]: items });
        const answer = await api.post(`/api/v1${path}`, text, { key: side.tenant.key });
        const results = must(answer, 200).results as unknown[];
        assert.equal(results.length, items.length);
        const [asked, bytes] = [Buffer.byteLength(text), Buffer.byteLength(JSON.stringify(answer.body))];
        const what = `${name} ${JSON.stringify(item).slice(0, 40)}: ${bytes} bytes for ${asked}`;
        assert.ok(bytes <= ITEMISED.bytes + ITEMISED.perByte * asked, what);
      }
  });

  it("of a batch's items tells why, where there are few or they are no shorter than items are", async () => {
    const { key } = side.tenant;
    const reasons = async (path: string, name: string, item: unknown, count: number) => {
      const items = Array.from({ length: count }, () => item);
      const { results } = must(await api.post(`/api/v1${path}`, { [name]: items }, { key }), 200);
      const told = results as { message?: string; error?: { message?: string } }[];
      return told.filter(({ message, error }) => (message ?? error?.message) !== undefined).length;
    };
    const scores = `/leaderboards/${await side.board()}/scores/batch`;
    for (const [path, name] of [
      ["/players/batch", "players"],
      ["/events/batch", "events"],
      [scores, "scores"],
    ] as const) {
      assert.equal(await reasons(path, name, 0, SHORT_REFUSALS_EXPLAINED), SHORT_REFUSALS_EXPLAINED, name);
      assert.equal(await reasons(path, name, 0, 400), SHORT_REFUSALS_EXPLAINED, name);
      const long = { eventType: "level_finished", displayName: 5, score: "many" };
      assert.equal(await reasons(path, name, long, 400), 400, name);
    }
  });

  it("of any operation is short, whatever the path and the query", async () => {
    const long = encodeURIComponent("é\u0001".repeat(150));
    const many = Array.from({ length: 400 }, (_, i) => `unknown${i}=1`).join("&");
    for (const operation of operations()) {
      const { route } = operation;
      const texts = takesBody(route) ? ["{}"] : [undefined];
      for (const path of [
        `${pathOf(operation)}?${many}&${long}=${long}&limit=${long}&status=${long}&kind=${long}`,
        route.path.replaceAll(/\{\w+\}/g, () => long),
      ])
        for (const text of texts) {
          const [status, bytes] = await sizeOf(operation, path, text);
          if (status >= 400) assert.ok(bytes <= SHORT, `${route.id}: ${bytes} bytes for ${path.length}`);
        }
    }
  });
});
