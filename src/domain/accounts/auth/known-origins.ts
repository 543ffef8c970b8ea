import { sql } from "kysely";
import { limitKeyOf } from "../rate-limits/ip-address.ts";
import type { Work } from "../../kernel/work.ts";
import { hashRandomSecret, newRandomSecret } from "./random-secret.ts";
import type { Tokens } from "./tokens.ts";

/** How long an origin is known after the last sign-in from it, in days. */
const KNOWN_DAYS = 90;
/** Maximum origins of one account; the oldest are forgotten. */
export const KNOWN_ORIGINS_MAX = 20;
/** Format of a device token. */
const DEVICE_TOKEN = /^[\w-]{43}$/;

/** The owner of origins: `tenantId` is null for a super-admin. */
export type OriginOwner = { id: string; tenantId: string | null };
/** Origin of a sign-in: the IP address, and the device token of an earlier sign-in or "". */
export type Origin = { ip: string; deviceToken: string };
/** Tables of accounts with an email column. */
type Accounts = "users" | "platform_admins";

const addressHash = (tokens: Tokens, ip: string): string => tokens.hashAddress(limitKeyOf(ip));

const deviceHash = (deviceToken: string): string | undefined =>
  DEVICE_TOKEN.test(deviceToken) ? `device:${hashRandomSecret(deviceToken)}` : undefined;

/**
 * Returns the id of an origin known to an account: its device, or else its address; undefined for a stranger.
 * One statement, whether the account exists or not.
 */
export const findKnownOrigin = async (
  { db, now }: Work,
  tokens: Tokens,
  { accounts, email, ip, deviceToken }: Origin & { accounts: Accounts; email: string },
): Promise<string | undefined> => {
  const asked = [deviceHash(deviceToken), addressHash(tokens, ip)].filter((one) => one !== undefined);
  const { rows } = await sql<{ origin: string }>`
    select k.origin from known_origins k join ${sql.ref(accounts)} a on a.id = k.owner_id
    where a.email = ${email} and k.expires_at > ${now.toISOString()}::timestamptz
      and k.origin in (select json_array_elements_text(${JSON.stringify(asked)}::json))`.execute(db);
  return asked.find((one) => rows.some(({ origin }) => origin === one));
};

/** Records a sign-in to an account from this address. */
export const rememberAddress = async (
  work: Work,
  tokens: Tokens,
  owner: OriginOwner,
  ip: string | undefined,
): Promise<void> => {
  if (ip !== undefined && ip !== "") await remember(work, owner, addressHash(tokens, ip));
};

/** Records a sign-in to an account by this device. @returns its token: a new one if it had none */
export const rememberDevice = async (
  work: Work,
  owner: OriginOwner,
  deviceToken: string,
): Promise<string> => {
  const known = deviceHash(deviceToken);
  const isTheirs = known !== undefined && (await isKnown(work, owner, known));
  const token = isTheirs ? deviceToken : newRandomSecret();
  await remember(work, owner, deviceHash(token)!);
  return token;
};

/** A client cannot choose its own token. */
const isKnown = async ({ db }: Work, { id }: OriginOwner, origin: string): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from known_origins where owner_id = ${id}::uuid and origin = ${origin}`.execute(db);
  return rows.length > 0;
};

const remember = async ({ db, now }: Work, owner: OriginOwner, origin: string): Promise<void> => {
  const until = new Date(now.getTime() + KNOWN_DAYS * 86_400_000).toISOString();
  await sql`
    insert into known_origins (owner_id, origin, tenant_id, seen_at, expires_at)
    values (${owner.id}::uuid, ${origin}, ${owner.tenantId}::uuid, ${now.toISOString()}::timestamptz,
      ${until}::timestamptz)
    on conflict (owner_id, origin) do update
      set seen_at = excluded.seen_at, expires_at = excluded.expires_at`.execute(db);
  await sql`
    delete from known_origins where owner_id = ${owner.id}::uuid and origin not in (
      select origin from known_origins where owner_id = ${owner.id}::uuid
      order by seen_at desc, origin limit ${KNOWN_ORIGINS_MAX})`.execute(db);
};

/**
 * Forgets the known origins of an account when it has a new password, since those who knew the old one may be
 * others. `keptDeviceToken`: of the device that sets the password, which stays known if it was.
 */
export const forgetOrigins = async ({ db }: Work, ownerId: string, keptDeviceToken = ""): Promise<void> => {
  const kept = deviceHash(keptDeviceToken) ?? "";
  await sql`
    delete from known_origins where owner_id = ${ownerId}::uuid and origin <> ${kept}`.execute(db);
};

/**
 * Records the origin that set an account's password. @returns the token of its device, as `rememberDevice`
 */
export const rememberOrigin = async (
  work: Work,
  tokens: Tokens,
  owner: OriginOwner,
  { ip, deviceToken }: Origin,
): Promise<string> => {
  await rememberAddress(work, tokens, owner, ip);
  return rememberDevice(work, owner, deviceToken);
};
