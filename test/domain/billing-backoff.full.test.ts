import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { CustomerUnknown, ProviderFailed } from "../../src/domain/accounts/billing/buy.ts";
import { addCustomer, dueCustomers, markCustomers } from "../../src/domain/accounts/billing/customer.ts";
import type { BillingProvider } from "../../src/domain/accounts/billing/provider.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { createSyncBilling } from "../../src/jobs/due-work.ts";
import { startApp } from "../support/app/app.ts";
import { type Domain, openDomain, openMemoryDatabase } from "../support/domain/domain.ts";
import { sharedFakeStripe } from "../support/providers/fake-stripe.ts";
import { madeForEach } from "../support/made.ts";

const MINUTE_MS = 60_000;

describe("customers whom the payment provider cannot show", () => {
  let domain: Domain;
  let nowMs: number;

  const database = madeForEach(openMemoryDatabase);
  beforeEach(async () => {
    nowMs = Date.now();
    domain = openDomain(database, () => new Date(nowMs));
  });
  afterEach(() => database.close());

  /** A tenant with a customer, who is due. */
  const aCustomer = async (): Promise<{ tenantId: string; customerId: string }> => {
    const [projectId, customerId] = [await domain.addProject(), `cus_${randomUUID()}`];
    return domain.transact(async (work) => {
      const { rows } = await sql<{ id: string }>`
        select tenant_id::text as id from projects where id = ${projectId}::uuid`.execute(work.db);
      const tenantId = rows[0]!.id;
      await addCustomer(work, { tenantId, customerId });
      await markCustomers(work, [customerId]);
      return { tenantId, customerId };
    });
  };
  const isDue = async (tenantId: string): Promise<boolean> =>
    (await domain.transact((work) => dueCustomers(work, 100))).includes(tenantId);
  /** Runs the job with a provider that fails for some customers. Returns for whom it was asked. */
  const run = async (failureFor: (customerId: string) => Error | undefined): Promise<string[]> => {
    const { app } = await startApp();
    const asked: string[] = [];
    const billing: Pick<BillingProvider, "changedSince" | "subscriptionsOf" | "updateCustomer" | "prices"> = {
      prices: [],
      changedSince: async () => new Map(),
      updateCustomer: async () => true,
      subscriptionsOf: async (customerId) => {
        asked.push(customerId);
        const failure = failureFor(customerId);
        if (failure) throw failure;
        return [];
      },
    };
    const own = { ...app, clock: () => new Date(nowMs), transact: domain.transact };
    await createSyncBilling().run({ ...own, billing: billing as BillingProvider }, "*");
    return asked;
  };
  const three = async (): Promise<string[]> => {
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) {
      ids.push((await aCustomer()).customerId);
      nowMs++;
    }
    return ids;
  };

  it("since it does not know them are asked for ever later, an hour apart at last", async () => {
    const { tenantId, customerId } = await aCustomer();
    const pauses: number[] = [];
    for (let n = 0; n < 9; n++) {
      assert.deepEqual(await run(() => new CustomerUnknown()), [customerId]);
      const fromMs = nowMs;
      while (!(await isDue(tenantId))) nowMs += MINUTE_MS;
      pauses.push((nowMs - fromMs) / MINUTE_MS);
    }
    assert.deepEqual(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    await run(() => undefined);
    assert.equal(await isDue(tenantId), false);
    await domain.transact((work) => markCustomers(work, [customerId]));
    await run(() => new CustomerUnknown());
    nowMs += MINUTE_MS;
    assert.equal(await isDue(tenantId), true, "as before once they were read");
  });

  it("since it does not know them keep none of the others from being read", async () => {
    const ids = await three();
    assert.deepEqual(await run((id) => (id === ids[2] ? undefined : new CustomerUnknown())), ids);
  });

  it("since it fails for them are read in a minute; after two of them nobody else is", async () => {
    const ids = await three();
    assert.deepEqual(await run((id) => (id === ids[0] ? new ProviderFailed() : undefined)), ids);
    nowMs += MINUTE_MS;
    assert.deepEqual(await run(() => undefined), [ids[0]]);
    await domain.transact((work) => markCustomers(work, ids));
    assert.equal((await run(() => new ProviderFailed())).length, 2);
  });

  it("since their key is of another account are told from an outage", async () => {
    const { billing } = (await startApp()).app;
    const stripe = await sharedFakeStripe();
    assert.ok(billing);
    const read = (customerId: string) => billing.subscriptionsOf(customerId);
    await assert.rejects(
      read("cus_of_another_account"),
      (error: unknown) => error instanceof CustomerUnknown,
    );
    stripe.fail(500);
    const failed: unknown = await read("cus_of_another_account").catch((error: unknown) => error);
    stripe.fail(undefined);
    assert.ok(failed instanceof DomainError && !(failed instanceof CustomerUnknown));
    assert.equal(failed.code, "UPSTREAM_ERROR");
  });
});
