import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { define, listen, memoryDomain } from "../support/domain/domain.ts";

describe("what a new definition gives", () => {
  let rows = 0;
  const { database, domain } = memoryDomain();
  before(async () => {
    await listen(database, (count) => (rows += count));
  });

  const badge = (key: string, rewards: Json): Json => ({ key, name: "B", tiers: [{ tier: 1, rewards }] });
  const reward = (key: string, bundle: Json): Json => ({ key, name: "R", kind: "BUNDLE", bundle });
  const to = (rewardKey: string): Json => ({ rewards: [{ rewardKey }] });

  /** @returns rows that are read to make a badge among `others` */
  const rowsAmong = async (others: number): Promise<number> => {
    const projectId = await domain.addProject();
    await define(domain, projectId, "reward", reward("given", { xp: 1 }));
    for (let n = 0; n < others; n++) await define(domain, projectId, "badge", badge(`b${n}`, {}));
    const before = rows;
    await define(domain, projectId, "badge", badge("mine", to("given")));
    return rows - before;
  };

  it("is read without the other definitions of its project", async () => {
    assert.equal(await rowsAmong(40), await rowsAmong(2));
  });

  it("is followed to its end: what is too deep, a ring, or not there is refused", async () => {
    const projectId = await domain.addProject();
    const make = (kind: string, document: Json) => define(domain, projectId, kind, document);
    await make("reward", reward("r1", { xp: 1 }));
    for (let n = 2; n <= 4; n++) await make("reward", reward(`r${n}`, to(`r${n - 1}`)));
    await make("badge", badge("five", to("r4")));
    await assert.rejects(
      make("badge", badge("six", { badges: [{ badgeKey: "five" }] })),
      /rewards may be nested 5 deep, not 6/,
    );
    await assert.rejects(make("badge", badge("self", { badges: [{ badgeKey: "self" }] })), /gives itself/);
    await assert.rejects(make("reward", reward("none", to("nowhere"))), { reason: "UNKNOWN_REFERENCE" });
    await assert.rejects(make("level", { key: "2", name: "L", rewards: to("r4") }), /cannot give XP/);
  });
});
