import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

/** 3.9 KB that look at the whole event 240 times. */
const SCHEMA = { allOf: Array.from({ length: 240 }, () => ({ not: { const: {} } })) };
/** 13 KB of JSON that are dear to put in order. */
const properties = Object.fromEntries(
  Array.from({ length: 600 }, (_, i) => [`k${((i * 7_919) % 10_000).toString(36)}`, "a value of it"]),
);
const EVENTS = 120;

describe("a batch of events that are dear to check", () => {
  const api = madeOnce(startApp);

  it("is answered event by event, and others are served meanwhile", async () => {
    const [dear, other] = [await aTenant(api), await aTenant(api)];
    const path = "/api/v1/event-types/dear";
    must(
      await api.request("PUT", path, { key: dear.key, body: { schema: SCHEMA, enforcement: "REJECT" } }),
      200,
    );
    const event = { externalUserId: "a", eventType: "dear", properties };
    const events = [
      ...Array.from({ length: EVENTS }, () => event),
      { ...event, eventType: "free" },
      { ...event, properties: {} },
    ];
    let isAnswered = false;
    const batch = api.post("/api/v1/events/batch", { events }, { key: dear.key }).then((answer) => {
      isAnswered = true;
      return answer;
    });
    let servedMeanwhile = 0;
    while (!isAnswered) {
      const given = { externalUserId: "b", eventType: "free" };
      const { status } = await api.post("/api/v1/events", given, { key: other.key });
      assert.equal(status, 200);
      if (!isAnswered) servedMeanwhile++;
    }
    assert(servedMeanwhile > 2, `${servedMeanwhile} served meanwhile`);
    const { status, body } = await batch;
    assert.equal(status, 200);
    const texts: string[] = body.results.map(({ message }: { message: string }) => message);
    assert.equal(texts[0], "properties cannot be checked: the schema takes more than 50000 steps");
    assert.match(texts[EVENTS - 1]!, /^properties cannot be checked: .*; send fewer at once$/);
    assert.equal(body.results[EVENTS].status, "PENDING");
    assert.equal(body.results[EVENTS + 1].status, "REJECTED");
  });
});
