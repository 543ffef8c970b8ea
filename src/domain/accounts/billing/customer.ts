import { type RawBuilder, sql } from "kysely";
import { isoOf } from "../../kernel/iso-time.ts";
import type { Work } from "../../kernel/work.ts";
import type { Projection } from "./provider.ts";

/** A tenant at the payment provider, with what was last read of its subscription. */
export type Customer = Omit<Projection, "subscriptionId" | "entitled"> & {
  tenantId: string;
  customerId: string;
  /** What the provider was last told that the tenant is called. */
  toldName: string | null;
  updatedAt: Date;
};

/** Returns the customer of a tenant; undefined for one that never began to buy. */
export const findCustomer = async ({ db }: Work, tenantId: string): Promise<Customer | undefined> => {
  const { rows } = await sql<Customer>`
    select tenant_id as "tenantId", customer_id as "customerId", status, plan, interval,
      period_start as "periodStart", period_end as "periodEnd",
      cancel_at_period_end as "cancelAtPeriodEnd", trial_end as "trialEnd", grace_end as "graceEnd",
      past_due_since as "pastDueSince", told_name as "toldName", updated_at as "updatedAt"
    from billing_customers where tenant_id = ${tenantId}::uuid`.execute(db);
  return rows[0];
};

/** Adds the customer of a tenant that has none, or has `instead` of another one that is gone. */
export const addCustomer = async (
  { db, serverNow }: Work,
  {
    tenantId,
    customerId,
    instead,
  }: Pick<Customer, "tenantId" | "customerId"> & { instead?: string | undefined },
): Promise<void> => {
  const now = serverNow.toISOString();
  if (instead !== undefined)
    await sql`update billing_customers set customer_id = ${customerId}, told_name = null
      where tenant_id = ${tenantId}::uuid and customer_id = ${instead}`.execute(db);
  else
    await sql`insert into billing_customers (tenant_id, customer_id, status, created_at, updated_at)
      values (${tenantId}::uuid, ${customerId}, 'NONE', ${now}::timestamptz, ${now}::timestamptz)
      on conflict do nothing`.execute(db);
};

/** Notes what the provider was told that a tenant is called. */
export const noteTold = async (
  { db }: Work,
  { tenantId, customerId }: Pick<Customer, "tenantId" | "customerId">,
  name: string,
): Promise<void> => {
  await sql`update billing_customers set told_name = ${name}
    where tenant_id = ${tenantId}::uuid and customer_id = ${customerId}`.execute(db);
};

/** Notes subscriptions that are about to be ended, so that it is told also after a crash. */
export const noteEndings = async (
  { db, serverNow }: Work,
  tenantId: string,
  subscriptionIds: readonly string[],
): Promise<void> => {
  await sql`insert into billing_endings (subscription_id, tenant_id, created_at)
    select id, ${tenantId}::uuid, ${serverNow.toISOString()}::timestamptz
    from json_array_elements_text(${JSON.stringify(subscriptionIds)}::json) as id
    on conflict do nothing`.execute(db);
};

/** Takes those that have ended by now: each is answered once. */
export const takeEndings = async (
  { db }: Work,
  tenantId: string,
  endedIds: readonly string[],
): Promise<string[]> => {
  const { rows } = await sql<{ id: string }>`
    delete from billing_endings where tenant_id = ${tenantId}::uuid
      and subscription_id in (select json_array_elements_text(${JSON.stringify(endedIds)}::json))
    returning subscription_id as id`.execute(db);
  return rows.map(({ id }) => id).toSorted();
};

const mark = async ({ db, serverNow }: Work, which: RawBuilder<unknown>): Promise<void> => {
  await sql`update billing_customers
    set marks = marks + 1, due_at = ${serverNow.toISOString()}::timestamptz where ${which}`.execute(db);
};

/** Has customers read anew at once; unknown ids are ignored. */
export const markCustomers = (work: Work, customerIds: readonly string[]): Promise<void> =>
  mark(work, sql`customer_id in (select json_array_elements_text(${JSON.stringify(customerIds)}::json))`);

/** Has the customer of a tenant read anew at once, if it has one. */
export const markTenant = (work: Work, tenantId: string): Promise<void> =>
  mark(work, sql`tenant_id = ${tenantId}::uuid`);

/** How long a reading may take before the customer is read again, in ms. */
const READING_MS = 60_000;
/** The longest pause before a customer that the provider does not know is asked for again, in ms. */
const UNKNOWN_MAX_MS = 3_600_000;

/** One reading of a customer: a later one has a higher `ticket`. `marks`: what had been told before it. */
export type Reading = { tenantId: string; customerId: string; ticket: number; marks: number };

/** Begins to read a customer. @returns undefined for a tenant without one */
export const beginReading = async (
  { db, serverNow }: Work,
  tenantId: string,
): Promise<Reading | undefined> => {
  const again = new Date(serverNow.getTime() + READING_MS).toISOString();
  const { rows } = await sql<Reading>`
    update billing_customers set tickets = tickets + 1, due_at = ${again}::timestamptz
    where tenant_id = ${tenantId}::uuid
    returning tenant_id as "tenantId", customer_id as "customerId", tickets as ticket, marks`.execute(db);
  return rows[0];
};

/** Puts off a customer that the provider does not know: by a minute first, and ever longer, up to an hour. */
export const putOff = async ({ db, serverNow }: Work, tenantId: string): Promise<void> => {
  await sql`
    update billing_customers set unread = unread + 1,
      due_at = ${serverNow.toISOString()}::timestamptz + interval '1 millisecond'
        * least(${sql.lit(UNKNOWN_MAX_MS)}, ${sql.lit(READING_MS)} * power(2, least(unread, 10)))
    where tenant_id = ${tenantId}::uuid`.execute(db);
};

/**
 * Stores what was read, unless a later reading was stored before: readings overlap, and the slower one may
 * know less. The customer stays due if something was told of meanwhile.
 * @returns whether it was stored
 */
export const storeReading = async (
  { db, serverNow }: Work,
  { tenantId, ticket, marks }: Reading,
  of: Projection,
): Promise<boolean> => {
  const isWaiting = of.graceEnd !== null && of.graceEnd > serverNow;
  const { rows } = await sql`
    update billing_customers set
      status = ${of.status}, subscription_id = ${of.subscriptionId}, plan = ${of.plan},
      interval = ${of.interval}, period_start = ${isoOf(of.periodStart)}::timestamptz,
      period_end = ${isoOf(of.periodEnd)}::timestamptz, cancel_at_period_end = ${of.cancelAtPeriodEnd},
      past_due_since = ${isoOf(of.pastDueSince)}::timestamptz,
      trial_end = ${isoOf(of.trialEnd)}::timestamptz, grace_end = ${isoOf(of.graceEnd)}::timestamptz,
      applied = ${ticket}::bigint, unread = 0, read_at = ${serverNow.toISOString()}::timestamptz,
      updated_at = ${serverNow.toISOString()}::timestamptz,
      due_at = case when marks <> ${marks}::bigint then due_at
        else ${isWaiting ? isoOf(of.graceEnd) : null}::timestamptz end
    where tenant_id = ${tenantId}::uuid and applied < ${ticket}::bigint returning 1`.execute(db);
  return rows.length === 1;
};

/** Returns tenants whose customers are due to be read, those that wait longest first. */
export const dueCustomers = async ({ db, serverNow }: Work, limit: number): Promise<string[]> => {
  const { rows } = await sql<{ tenant_id: string }>`
    select tenant_id from billing_customers where due_at <= ${serverNow.toISOString()}::timestamptz
    order by due_at limit ${limit}`.execute(db);
  return rows.map(({ tenant_id }) => tenant_id);
};

/** Has those customers read that were last read before something happened to them. */
export const markUnread = async (work: Work, changed: ReadonlyMap<string, number>): Promise<void> => {
  const rows = [...changed].map(([c, ms]) => ({ c, t: new Date(ms).toISOString() }));
  const { rows: unread } = await sql<{ customer_id: string }>`
    select customer_id from billing_customers b
    join json_to_recordset(${JSON.stringify(rows)}::json) as x(c text, t timestamptz) on x.c = b.customer_id
    where (b.due_at is null or b.due_at > ${work.serverNow.toISOString()}::timestamptz)
      and (b.read_at is null or b.read_at <= x.t + interval '5 minutes')`.execute(work.db);
  await markCustomers(
    work,
    unread.map(({ customer_id }) => customer_id),
  );
};
