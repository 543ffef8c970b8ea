import assert from "node:assert/strict";
import { Tenant as TenantEntity } from "../../src/domain/accounts/tenants/tenant.ts";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { aKey, aTenant, type Tenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Answer, type Client, clientOf, must } from "../support/http/client.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";

/** What is promised of keys, over all processes. */
const PROMISE = { timeoutMs: 5_000 };

describe("API keys over two processes", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;
  let here: Client;
  let there: Client;
  let tenant: Tenant;
  const servers: Laurel[] = [];

  const start = async (): Promise<Client> => {
    const port = await freePort();
    const shared = { PUBLIC_URL: "http://localhost", TRUSTED_PROXIES: "127.0.0.1/32" };
    servers.push(await startProcess(["serve"], { ...services.env, ...shared, PORT: String(port) }));
    return clientOf(`http://127.0.0.1:${port}`);
  };

  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    here = await start();
    there = await start();
    database = await openPostgres(services.databaseUrl, 1);
  });
  beforeEach(async () => {
    tenant = await aTenant(here);
  });
  after(async () => {
    await database?.close();
    for (const server of servers) await kill(server);
    await services?.remove();
    await directory?.remove();
  });

  const keysPath = () => `/api/v1/projects/${tenant.projectId}/api-keys`;
  const create = (on: Client, body: object = {}) =>
    on.post(keysPath(), { name: "Server", scopes: ["*"], ...body }, { token: tenant.token });
  const use = (on: Client, key: string) => on.get("/api/v1/projects", { key });
  const known = async (key: string): Promise<void> => {
    for (const on of [here, there]) assert.equal((await use(on, key)).status, 200);
  };
  const plan = (planOverrides: object) =>
    database.em.fork().nativeUpdate(TenantEntity, { id: tenant.tenantId }, { planOverrides });
  /** Asks both processes at once, again and again. */
  const race = (times: number, ask: (on: Client) => Promise<Answer>): Promise<Answer[]> =>
    Promise.all(Array.from({ length: times }, (_, i) => ask(i % 2 === 0 ? here : there)));
  const statuses = (answers: Answer[]) => answers.map(({ status }) => status).toSorted();

  it("a revoked key is dead at once where it was revoked, and within 5 seconds everywhere", async () => {
    const { id, key } = must(await create(here), 201);
    await known(key);
    must(await here.delete(`${keysPath()}/${id}`, { token: tenant.token }), 200);
    assertError(await use(here, key), 401, "API_KEY_REVOKED");
    await eventuallyHolds(async () => assertError(await use(there, key), 401, "API_KEY_REVOKED"), PROMISE);
  });

  it("a key that was rotated without grace, and one that lost a scope, too", async () => {
    const [rotated, narrowed] = [must(await create(here), 201), must(await create(here), 201)];
    for (const { key } of [rotated, narrowed]) await known(key);
    const { token } = tenant;
    const path = `${keysPath()}/${rotated.id}/rotate`;
    const made = must(await here.post(path, { gracePeriodSeconds: 0 }, { token }), 201);
    must(await here.patch(`${keysPath()}/${narrowed.id}`, { scopes: [] }, { token }), 200);
    assertError(await use(here, rotated.key), 401, "API_KEY_EXPIRED");
    assertError(await use(here, narrowed.key), 403, "INSUFFICIENT_SCOPE");
    await eventuallyHolds(async () => {
      assertError(await use(there, rotated.key), 401, "API_KEY_EXPIRED");
      assertError(await use(there, narrowed.key), 403, "INSUFFICIENT_SCOPE");
    }, PROMISE);
    await known(made.key);
  });

  it("the keys of a deleted project, and pages of an origin that was taken off the list, too", async () => {
    const { token, key, projectId } = tenant;
    await known(key);
    const change = { allowedOrigins: ["https://game.example.com"] };
    must(await here.patch(`/api/v1/projects/${projectId}`, change, { token }), 200);
    await eventuallyHolds(async () => {
      const headers = { Origin: "https://evil.example" };
      assertError(await there.get("/api/v1/players", { key, headers }), 403, "ORIGIN_NOT_ALLOWED");
    }, PROMISE);
    must(await here.delete(`/api/v1/projects/${projectId}`, { token }), 200);
    assertError(await use(here, key), 401, "API_KEY_REVOKED");
    await eventuallyHolds(async () => assertError(await use(there, key), 401, "API_KEY_REVOKED"), PROMISE);
  });

  it("the plan's number of keys is exact, whichever process is asked", async () => {
    await plan({ activeKeysPerProject: 6 });
    const answers = await race(16, (on) => create(on));
    assert.deepEqual(statuses(answers), [...Array(5).fill(201), ...Array(11).fill(402)]);
  });

  it("the plan's number of projects is exact, whichever process is asked", async () => {
    await plan({ projects: 4 });
    const { token } = tenant;
    const answers = await race(12, (on) => on.post("/api/v1/projects", { name: "Game" }, { token }));
    assert.deepEqual(statuses(answers), [...Array(3).fill(201), ...Array(9).fill(402)]);
  });

  it("a key is rotated once and revoked once", async () => {
    const { token } = tenant;
    const { id } = must(await create(here), 201);
    const rotations = await race(8, (on) => on.post(`${keysPath()}/${id}/rotate`, {}, { token }));
    assert.deepEqual(statuses(rotations), [201, ...Array(7).fill(409)]);
    const mixed = must(await create(here), 201).id;
    const both = await race(8, (on) =>
      on === here
        ? on.post(`${keysPath()}/${mixed}/rotate`, { gracePeriodSeconds: 0 }, { token })
        : on.delete(`${keysPath()}/${mixed}`, { token }),
    );
    assert.deepEqual(statuses(both).slice(1), Array(7).fill(409));
  });

  it("a sandbox is synchronised while both sides change and evaluate", async () => {
    const { token, projectId, key } = tenant;
    const test = await aKey(here, { token, projectId, environment: "test" });
    const triggers = [{ kind: "EVENT", eventTypes: ["won"] }];
    const rule = { key: "won", name: "Won", triggers, actions: [{ type: "grant_xp", amount: 1 }] };
    for (const owner of [key, test]) must(await here.post("/api/v1/rules", rule, { key: owner }), 201);
    const event = { externalUserId: "ada", eventType: "won" };
    const asks: ((on: Client) => Promise<Answer>)[] = [
      (on) => on.post(`/api/v1/projects/${projectId}/sandbox/sync`, {}, { token }),
      (on) => on.post("/api/v1/rules/won/publish", {}, { key }),
      (on) => on.post("/api/v1/rules/won/publish", {}, { key: test }),
      (on) => on.post("/api/v1/events?wait=true", event, { key }),
      (on) => on.post("/api/v1/events?wait=true", event, { key: test }),
    ];
    let turn = 0;
    const answers = await race(40, (on) => asks[turn++ % asks.length]!(on));
    assert.deepEqual([...new Set(statuses(answers))], [200]);
    must(await here.post(`/api/v1/projects/${projectId}/sandbox/sync`, {}, { token }), 200);
    const shown = async (owner: string) => must(await there.get("/api/v1/rules/won", { key: owner }), 200);
    const [mine, theirs] = [await shown(key), await shown(test)];
    assert.deepEqual(
      [theirs.draft, theirs.published, theirs.status],
      [mine.draft, mine.published, mine.status],
    );
  });
});
