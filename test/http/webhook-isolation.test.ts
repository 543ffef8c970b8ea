import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { deleteTenants } from "../../src/jobs/jobs.ts";
import { failWaitingWebhooks } from "../../src/jobs/sweeps.ts";
import { aKey, aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { startReceiver } from "../support/webhooks/receiver.ts";
import { hooksOf, payloadsOf, relayed } from "../support/webhooks/webhook-app.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const WITHIN = { timeoutMs: 60_000 };

describe("whose events a webhook is sent", () => {
  const api = madeOnce(startApp);
  const receiver = madeOnce(
    () => startReceiver(),
    (made) => made.close(),
  );

  const aPlayer = async (key: string): Promise<string> =>
    must(await api.post("/api/v1/players", { externalUserId: `canary-${randomUUID()}` }, { key }), 201)
      .externalUserId as string;
  const setTenant = (tenantId: string, set: ReturnType<typeof sql>) =>
    api.sql`update tenants set ${set} where id = ${tenantId}`;
  /** External ids of the players that were told of at a path. */
  const toldAt = (path: string): unknown[] =>
    payloadsOf(receiver.received.filter((one) => one.path === path)).map(
      ({ data }) => data["externalUserId"],
    );
  const arrives = (path: string, name: string): Promise<true> =>
    eventually(() => Promise.resolve(toldAt(path).includes(name)), WITHIN);
  const pendingOf = async (tenant: Tenant, id: string): Promise<number> =>
    (await hooksOf(api, tenant).stored(id)).filter(({ status }) => status === "pending").length;

  it("are its tenant's and its project's, and no sandbox's that it does not name", async () => {
    const [own, other] = [await aTenant(api), await aTenant(api)];
    const second = must(await api.post("/api/v1/projects", { name: "Second" }, { token: own.token }), 201);
    const secondKey = await aKey(api, { token: own.token, projectId: second.id });
    const testKey = await aKey(api, { ...own, scopes: ["*"], environment: "test" });
    const shown = must(await api.get(`/api/v1/projects/${own.projectId}`, { token: own.token }), 200);
    const sandboxId: string = shown.sandboxProjectId;
    const at = (name: string) => `/${name}-${own.projectId}`;
    const add = (tenant: Tenant, name: string, projectId?: string) =>
      hooksOf(api, tenant).add(receiver.url + at(name), projectId === undefined ? {} : { projectId });
    await add(own, "all");
    await add(own, "first", own.projectId);
    await add(own, "second", second.id);
    await add(own, "sandbox", sandboxId);
    await add(other, "other");

    const names = {
      first: await aPlayer(own.key),
      second: await aPlayer(secondKey),
      sandbox: await aPlayer(testKey),
      other: await aPlayer(other.key),
    };
    for (const [hook, name] of Object.entries(names)) await arrives(at(hook), name);
    await arrives(at("all"), names.first);
    await arrives(at("all"), names.second);
    await relayed(api);
    assert.deepEqual(toldAt(at("all")).toSorted(), [names.first, names.second].toSorted());
    for (const [hook, name] of Object.entries(names)) assert.deepEqual(toldAt(at(hook)), [name], hook);
  });

  it("end with the project, its own webhooks and what waits for those of all projects", async () => {
    const own = await aTenant(api);
    const { token } = own;
    const path = `/gone-${own.projectId}`;
    const hooks = hooksOf(api, own);
    const [all, only] = [
      await hooks.add(receiver.url + path),
      await hooks.add(receiver.url + path, { projectId: own.projectId }),
    ];
    for (const id of [all, only]) await hooks.change(id, { status: "PAUSED" });
    await aPlayer(own.key);
    await relayed(api);
    assert.equal(await pendingOf(own, all), 1);
    must(await api.delete(`/api/v1/projects/${own.projectId}`, { token }), 200);
    assertError(await api.get(`/api/v1/webhooks/${only}`, { token }), 404);
    await hooks.change(all, { status: "ACTIVE" });
    await eventually(async () => (await pendingOf(own, all)) === 0, WITHIN);
    await failWaitingWebhooks.run(api.app, "*");
    const [of] = [await hooks.stored(all), await hooks.stored(only)];
    assert.deepEqual(pluck(of, "status", "error"), [["failed", "Its project was deleted"]]);
    assert.deepEqual(pluck(await hooks.stored(only), "status", "error"), [
      ["failed", "The webhook was deleted"],
    ]);
    assert.deepEqual(toldAt(path), []);
  });

  it("end with the tenant", async () => {
    const own = await aTenant(api);
    const path = `/ended-${own.projectId}`;
    const hooks = hooksOf(api, own);
    const id = await hooks.add(receiver.url + path);
    await hooks.change(id, { status: "PAUSED" });
    await aPlayer(own.key);
    await relayed(api);
    await setTenant(own.tenantId, sql`delete_after = now() - interval '1 day'`);
    await deleteTenants.run(api.app, "*");
    await api.sql`update webhooks set status = 'ACTIVE' where id = ${id}`;
    await api.app.transact((work) => {
      work.wakeWebhooks([id]);
      return Promise.resolve();
    });
    await failWaitingWebhooks.run(api.app, "*");
    assert.equal(await pendingOf(own, id), 0);
    assert.deepEqual(toldAt(path), []);
    const rows = await api.sql<{ n: number }>`
      select count(*) as n from webhooks where tenant_id = ${own.tenantId} and deleted_at is null`;
    assert.equal(rows[0]!.n, 0);
  });
});
