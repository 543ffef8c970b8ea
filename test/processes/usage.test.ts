import assert from "node:assert/strict";
import { aKey, aTenant, type Tenant } from "../support/app/app.ts";
import { type Answer, must } from "../support/http/client.ts";
import { superAdminOf, twoServers, type TwoServers } from "../support/processes/two-servers.ts";

describe("the quota of events, before two processes at once", () => {
  let two: TwoServers;
  let tenant: Tenant;
  let key: string;
  before(async () => {
    two = await twoServers();
    tenant = await aTenant(two.clients[0]);
    const planOverrides = { eventsPerMonth: 60, requestsPerMinute: 100_000 };
    const path = `/api/v1/superadmin/tenants/${tenant.tenantId}`;
    const token = await superAdminOf(two);
    must(await two.clients[0].patch(path, { plan: "FREE", planOverrides }, { token }), 200);
    // Nobody knows this key yet, nor with it the plan of before.
    key = await aKey(two.clients[0], tenant);
  });

  it("takes exactly what is left of 200 racing requests: single, batches, repeated, with keys", async () => {
    const send = (n: number): Promise<Answer> => {
      const client = two.clients[n % 2]!;
      const event = (name: string) => ({ externalUserId: `u${n}`, eventType: "goal", idempotencyKey: name });
      // Each second batch is sent to both processes: one of the two is a repetition.
      const group = Math.floor(n / 2);
      if (group % 2 === 0) {
        const headers = group % 4 === 0 ? { "X-Idempotency-Key": `r${group}` } : {};
        const events = [event(`a${group}`), event(`b${group}`), event(`b${group}`)].map((one) => ({
          ...one,
          externalUserId: "both",
        }));
        return client.post("/api/v1/events/batch", { events }, { key, headers });
      }
      return client.post("/api/v1/events", event(`single-${n}`), { key });
    };
    const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => send(n)));
    const unexpected = answers.filter(({ status }) => ![200, 402, 409].includes(status));
    assert.deepEqual(
      unexpected.map(({ body }) => body),
      [],
    );
    const fill = () =>
      two.clients[0].post("/api/v1/events", { externalUserId: "x", eventType: "goal" }, { key });
    let rounds = 0;
    for (let status = 0; status !== 402; rounds++) {
      ({ status } = await fill());
      assert.ok([200, 402].includes(status) && rounds <= 60, `${status} after ${rounds} more events`);
    }
    const { items } = must(await two.clients[1].get("/api/v1/billing/usage", { token: tenant.token }), 200);
    assert.equal(items[0].used, 60);
    const listed = must(await two.clients[1].get("/api/v1/events?limit=100", { key }), 200);
    assert.equal(listed.data.length, 60);
    assert.ok(answers.some(({ status }) => status === 402));
  });
});
