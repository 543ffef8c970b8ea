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
});
