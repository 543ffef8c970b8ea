import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { BODY_MAX, webhookBody } from "../../src/domain/delivery/webhooks/plan.ts";

const event = {
  id: "0198c0de-0000-7000-8000-000000000001",
  projectId: "0198c0de-0000-7000-8000-000000000002",
  type: "lobby.closed",
  playerId: null,
  createdAt: new Date(Date.UTC(2030, 0, 1)),
};
/** Of the text, and what it says. */
const bodyOf = (data: Json, type = event.type) => {
  const text = webhookBody({ ...event, type, data });
  assert.ok(text !== undefined);
  return { bytes: Buffer.byteLength(text), said: JSON.parse(text) as { id: string; data: Json } };
};

describe("the body of a webhook", () => {
  it("is left as it is up to 64 KiB, to the byte", () => {
    const { bytes: rest } = bodyOf({ text: "" });
    const whole = { text: "x".repeat(BODY_MAX - rest) };
    const { bytes, said } = bodyOf(whole);
    assert.equal(bytes, BODY_MAX);
    assert.deepEqual(said.data, whole);
    assert.equal(bodyOf({ text: `${whole.text}x` }).said.data["truncated"], true);
  });

  it("has its longest list cut to a beginning, by bytes and not by characters, and says so", () => {
    const playerIds = Array.from({ length: 10_000 }, (_, i) => `Zoë 🏆 ${i}`);
    const { bytes, said } = bodyOf({ lobbyId: "l", playerIds, rewards: [1, 2] });
    assert.ok(bytes <= BODY_MAX);
    const { lobbyId, playerIds: left, rewards, truncated } = said.data;
    assert.deepEqual([said.id, lobbyId, rewards, truncated], [event.id, "l", [1, 2], true]);
    assert.ok(Array.isArray(left) && left.length > 1_000);
    assert.deepEqual(left, playerIds.slice(0, left.length));
  });

  it("loses a field that is too large without any list", () => {
    const { bytes, said } = bodyOf({ text: "🏆".repeat(BODY_MAX), n: 1 });
    assert.ok(bytes <= BODY_MAX);
    assert.deepEqual(said.data, { n: 1, truncated: true });
  });

  it("is none for what a rule emits for others, and does not say where else it goes", () => {
    const data = { properties: { a: 1 }, channels: ["realtime"] };
    assert.equal(webhookBody({ ...event, type: "custom.a", data }), undefined);
    const both = { ...data, channels: ["realtime", "webhook"] };
    assert.deepEqual(bodyOf(both, "custom.a").said.data, { properties: { a: 1 } });
  });
});
