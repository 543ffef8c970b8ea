import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { damageRule, makeDue } from "../support/domain/failed-event.ts";

describe("an event that fails for good", () => {
  it("is PENDING while it is tried again, then FAILED with the reason, and hinders nobody", async () => {
    const api = await startApp();
    const { key, projectId } = await aTenant(api);
    const rule = {
      key: "bad",
      name: "Bad",
      triggers: [{ kind: "EVENT", eventTypes: ["bad"] }],
      actions: [{ type: "grant_xp", amount: 10 }],
    };
    await api.post("/api/v1/rules", rule, { key });
    await api.post("/api/v1/rules/bad/publish", {}, { key });
    await damageRule(api.app, projectId, "bad");
    const event = (eventType: string) => ({ externalUserId: "u", eventType });
    const { body } = await api.post(
      "/api/v1/events/batch",
      { events: [event("good"), event("bad"), event("good")] },
      { key },
    );
    const ids = body.results.map(({ eventId }: { eventId: string }) => eventId) as string[];
    const statuses = async (): Promise<string[]> =>
      Promise.all(ids.map(async (id) => (await api.get(`/api/v1/events/${id}`, { key })).body.status));
    await eventually(async () => (await statuses()).join() === "PROCESSED,PENDING,PROCESSED");

    await eventually(
      async () => {
        await makeDue(api.app, projectId);
        return (await statuses())[1] === "FAILED";
      },
      { timeoutMs: 60_000 },
    );
    const failed = await api.get(`/api/v1/events/${ids[1]}`, { key });
    assert.match(failed.body.error, /is not a function/);
    assert.deepEqual(failed.body.effects, []);
    const list = await api.get("/api/v1/events?status=FAILED", { key });
    assert.deepEqual(
      list.body.data.map(({ id, error }: { id: string; error: string }) => [id, error]),
      [[ids[1], failed.body.error]],
    );
    const next = await api.post("/api/v1/events?wait=true", event("good"), { key });
    assert.equal(next.body.status, "PROCESSED");
  });
});
