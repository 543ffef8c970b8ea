import assert from "node:assert/strict";
import type { TransactAs } from "../../src/domain/kernel/work.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { type Client, must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

const REQUESTS = 12;

describe("pages of large documents", () => {
  let server: Client;
  let tenants: Tenant[];
  /** Pages in progress, by tenant, and the most there were at once. */
  let active: Map<string, number>;
  let most: { ofTenant: number; ofAll: number };
  /** Holds all of them until it is resolved. */
  let held: PromiseWithResolvers<void>;

  const api = madeOnce(startApp);
  before(async () => {
    const counting: TransactAs = (scope) => async (run) => {
      const id = "tenantId" in scope ? scope.tenantId : "";
      const change = (by: number): void => void active.set(id, (active.get(id) ?? 0) + by);
      if (id === "") return api.app.transactAs(scope)(run);
      change(1);
      const all = [...active.values()];
      most.ofTenant = Math.max(most.ofTenant, ...all);
      most.ofAll = Math.max(
        most.ofAll,
        all.reduce((sum, n) => sum + n, 0),
      );
      await held.promise;
      try {
        return await api.app.transactAs(scope)(run);
      } finally {
        change(-1);
      }
    };
    server = await anotherServer(api, {}, { transactAs: counting });
    tenants = [];
    for (let n = 0; n < 5; n++) tenants.push(await aTenant(api));
  });
  beforeEach(() => {
    active = new Map();
    most = { ofTenant: 0, ofAll: 0 };
    held = Promise.withResolvers();
  });

  const read = async ({ key }: Tenant): Promise<void> =>
    void must(await server.get("/api/v1/rules?limit=100", { key }), 200);

  /** Sends many requests of each, and lets them go when as many are made as may be. */
  const readMany = async (readers: readonly Tenant[], expected: number): Promise<void> => {
    const reading = Promise.all(
      readers.flatMap((tenant) => Array.from({ length: REQUESTS }, () => read(tenant))),
    );
    await eventually(() => most.ofAll >= expected);
    // Whoever else would come in is there by now.
    for (let n = 0; n < REQUESTS; n++) must(await server.get("/api/v1/limits"), 200);
    held.resolve();
    await reading;
  };

  it("are made two at once for a tenant, and every one is answered", async () => {
    await readMany(tenants.slice(0, 1), 2);
    assert.deepEqual(most, { ofTenant: 2, ofAll: 2 });
  });

  it("are made six at once for all", async () => {
    await readMany(tenants, 6);
    assert.deepEqual(most, { ofTenant: 2, ofAll: 6 });
  });
});
