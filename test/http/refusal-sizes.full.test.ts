import assert from "node:assert/strict";
import { SHORT_REFUSALS_EXPLAINED } from "../../src/http/item-refusals.ts";
import { routes } from "../../src/http/routes.ts";
import { startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { aSide } from "../support/app/sides.ts";
import { madeOnce } from "../support/made.ts";

const LONG = "\u0001é😀".repeat(1_000);
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

describe("a refusal", () => {
  const api = madeOnce(startApp);
  const side = madeOnce(() => aSide(api));
  it("of a batch's items is no longer than a multiple of the request, and one for each", async () => {
    const batches = [
      { path: "/players/batch", name: "players", count: 500 },
      { path: "/events/batch", name: "events", count: 1_000 },
      { path: `/leaderboards/${await side.board()}/scores/batch`, name: "scores", count: 500 },
    ];
    const itemised = routes.filter((route) => route.itemised && route.signatureHeader === undefined);
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
});
