import { findingsOf } from "../support/domain/domain.ts";
import assert from "node:assert/strict";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { jobResult } from "../support/app/processed.ts";

describe("XP that rules take away", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const get = (path: string): Promise<Answer> => api.get(`/api/v1${path}`, { key: tenant.key });
  const post = (path: string, body: unknown): Promise<Answer> =>
    api.post(`/api/v1${path}`, body, { key: tenant.key });
  const rule = async (more: object = {}): Promise<void> => {
    const triggers = [{ kind: "EVENT", eventTypes: ["vote"] }];
    const actions = [{ type: "grant_xp", amount: { ref: "event.properties.n" } }];
    must(await post("/rules", { key: "votes", name: "Votes", triggers, actions, ...more }), 201);
    must(await post("/rules/votes/publish", {}), 200);
  };
  const vote = async (n: number): Promise<{ eventId: string; effects: { type: string }[] }> => {
    const { body } = await post("/events?wait=true", {
      externalUserId: "ada",
      eventType: "vote",
      properties: { n },
    });
    assert.equal(body.status, "PROCESSED", JSON.stringify(body));
    return body;
  };
  const allowLevelDown = async (): Promise<void> => {
    const answer = await api.patch("/api/v1/project-settings", { allowLevelDown: true }, { key: tenant.key });
    must(answer, 200);
  };
  const standing = async (): Promise<[xp: number, level: number]> => {
    const { xp, level } = must(await get("/players/ext:ada"), 200);
    return [xp, level];
  };
  const revert = async (eventId: string): Promise<void> => {
    const { id } = must(await post(`/events/${eventId}/revert`, { reason: "a test" }), 200);
    await jobResult(api, tenant, id);
  };

  it("take the level with them where levels may fall, and a revert brings back both", async () => {
    await allowLevelDown();
    await rule();
    await vote(260);
    const { eventId } = await vote(-200);
    assert.deepEqual(await standing(), [60, 1]);
    await revert(eventId);
    assert.deepEqual(await standing(), [260, 3]);
    const lost = await vote(-300);
    assert.deepEqual(await standing(), [0, 1]);
    await revert(lost.eventId);
    assert.deepEqual(await standing(), [260, 3], "what was taken comes back, and no more");
    assert.deepEqual(await findingsOf(api.app, tenant.projectId), []);
  });

  it("count in limits, and use nothing of a budget", async () => {
    const budgets = [{ asset: "xp", max: 20, window: "DAY" }];
    await rule({ limits: { perPlayer: [{ max: 4, window: "DAY" }], budgets } });
    for (const n of [15, -10, 5, 1]) await vote(n);
    assert.deepEqual((await standing())[0], 10, "15 - 10 + 5; 1 more would exceed the budget");
    await vote(-2);
    assert.deepEqual((await standing())[0], 8);
    await vote(-2);
    assert.deepEqual((await standing())[0], 8, "the limit of firings is reached");
  });
});
