import { sql } from "kysely";
import { accountContext, keyContext, orderLost } from "../accounts/domains/order.ts";
import { totpContext } from "../accounts/mfa/owner.ts";
import { secretContext } from "../accounts/sso/configuration.ts";
import type { SecretBox } from "../kernel/secret-box.ts";
import type { Work } from "../kernel/work.ts";

/** Values that are kept encrypted for as long as their row is. */
export type SealedValue = {
  /** As metrics name it. */
  name: string;
  table: string;
  column: string;
  /** The column that identifies the row, its primary key. */
  key: string;
  keyType: "uuid" | "text";
  /** What the text is sealed for, given the key. */
  contextOf: (key: string) => string;
  /** Gets another one in place of one that is lost. */
  onLost?: (work: Work, key: string) => Promise<void>;
};

/**
 * A new kind of sealed value is a line here, or it is lost when an operator takes the key away. What is gone
 * after 8 days is not: mails, answers of idempotency keys, sign-ins in progress.
 */
export const SEALED_VALUES: readonly SealedValue[] = [
  {
    name: "webhook_secret",
    table: "webhooks",
    column: "secret",
    key: "id",
    keyType: "uuid",
    contextOf: (id) => id,
  },
  {
    name: "webhook_previous_secret",
    table: "webhooks",
    column: "previous_secret",
    key: "id",
    keyType: "uuid",
    contextOf: (id) => id,
  },
  {
    name: "authenticator_app",
    table: "totp_secrets",
    column: "sealed",
    key: "owner_id",
    keyType: "uuid",
    contextOf: totpContext,
  },
  {
    name: "next_authenticator_app",
    table: "totp_secrets",
    column: "next_sealed",
    key: "owner_id",
    keyType: "uuid",
    contextOf: totpContext,
  },
  {
    name: "oidc_client_secret",
    table: "sso_configurations",
    column: "oidc_client_secret",
    key: "id",
    keyType: "uuid",
    contextOf: (id) => secretContext({ id }),
  },
  {
    name: "certificate_key",
    table: "custom_domain_certificates",
    column: "sealed_key",
    key: "domain_id",
    keyType: "uuid",
    contextOf: keyContext,
    onLost: orderLost,
  },
  {
    name: "acme_account",
    table: "acme_accounts",
    column: "sealed_key",
    key: "directory_url",
    keyType: "text",
    contextOf: (directoryUrl) => accountContext({ directoryUrl }),
  },
];

type Row = { key: string; sealed: string };

const isOld = ({ column }: SealedValue, { mark }: SecretBox) =>
  sql`${sql.ref(column)} is not null and not starts_with(${sql.ref(column)}, ${mark})`;

/** A page of a kind's values that other keys than the first have sealed. `next`: undefined for the last. */
type Resealed = { sealed: number; unreadable: number; next: string | undefined };

/**
 * Seals values of a kind anew that other keys than the first have sealed: at most `limit` of those after the
 * key `after`, or of all. One that somebody changes meanwhile stays as they leave it; one of a key that the
 * server has no more stays too, until there is another one in its place.
 */
export const resealPage = async (
  work: Work,
  box: SecretBox,
  value: SealedValue,
  { after, limit }: { after: string | undefined; limit: number },
): Promise<Resealed> => {
  const { db } = work;
  const [table, column, key] = [sql.table(value.table), sql.ref(value.column), sql.ref(value.key)];
  const keyOf = (text: string) => sql`${text}::${sql.raw(value.keyType)}`;
  const isNext = after === undefined ? sql`true` : sql`${key} > ${keyOf(after)}`;
  const { rows } = await sql<Row>`
    select ${key}::text as key, ${column} as sealed from ${table}
    where ${isOld(value, box)} and ${isNext} order by ${key} limit ${limit}`.execute(db);
  let unreadable = 0;
  for (const { key: of, sealed } of rows) {
    const anew = resealed(box, sealed, value.contextOf(of));
    if (anew === undefined) {
      unreadable++;
      await value.onLost?.(work, of);
    } else
      await sql`
        update ${table} set ${column} = ${anew}
        where ${key} = ${keyOf(of)} and ${column} = ${sealed}`.execute(db);
  }
  const next = rows.length === limit ? rows.at(-1)?.key : undefined;
  return { sealed: rows.length - unreadable, unreadable, next };
};

const resealed = (box: SecretBox, sealed: string, context: string): string | undefined => {
  try {
    return box.seal(box.open(sealed, context), context);
  } catch {
    return undefined;
  }
};

/** Counts, by kind, the values that another key than the first has sealed. */
export const countOldSealed = async ({ db }: Work, box: SecretBox): Promise<ReadonlyMap<string, number>> => {
  const counts = new Map<string, number>();
  for (const value of SEALED_VALUES) {
    const { rows } = await sql<{ n: number }>`
      select count(*) as n from ${sql.table(value.table)} where ${isOld(value, box)}`.execute(db);
    counts.set(value.name, rows[0]?.n ?? 0);
  }
  return counts;
};
