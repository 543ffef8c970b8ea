import { sql } from "kysely";
import { audit, ofUser } from "../audit/audit.ts";
import type { User } from "../auth/user.ts";
import { type Mail, mailUser } from "../email/mail.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { Identity, PROVIDER_NAMES, type ProviderId, type ProviderProfile } from "./provider.ts";

type UserKey = Pick<User, "id" | "tenantId">;

/**
 * Adds an identity to a user. False when it belongs to somebody already, or when the user has another one of
 * this provider.
 */
export const addIdentity = async (
  { db, now }: Work,
  user: UserKey,
  provider: ProviderId,
  { subject, email }: ProviderProfile,
): Promise<boolean> => {
  const { rows } = await sql`
    insert into identities (id, tenant_id, user_id, provider, subject, email, created_at)
    values (${newId()}::uuid, ${user.tenantId}::uuid, ${user.id}::uuid, ${provider}, ${subject},
      ${email ?? null}, ${now.toISOString()}::timestamptz)
    on conflict do nothing returning id`.execute(db);
  return rows.length === 1;
};

/** Notifies the owner of an account of a new sign-in method. */
export const announceIdentity = async (
  work: Work,
  mail: Mail,
  user: User,
  provider: ProviderId,
): Promise<void> => {
  await audit(work, { ...ofUser(user), action: "identity.linked", data: { provider } });
  const values = { name: user.name, provider };
  await mailUser(work, mail, user, { template: "identity-linked", values });
};

export const listIdentities = ({ em }: Work, userId: string): Promise<Identity[]> =>
  em.find(Identity, { userId }, { orderBy: { provider: "asc" } });

/**
 * Removes a provider from a user.
 * @throws NOT_FOUND, CONFLICT INVALID_STATE when the user could not sign in any other way
 */
export const unlinkIdentity = async (work: Work, userId: string, provider: ProviderId): Promise<void> => {
  const { em, db } = work;
  // Locked, so that two concurrent requests cannot remove the last two methods.
  const { rows } = await sql<{ tenant_id: string; has_password: boolean }>`
    select tenant_id, password_hash is not null as has_password from users
    where id = ${userId}::uuid for update`.execute(db);
  const identities = await listIdentities(work, userId);
  const identity = identities.find((one) => one.provider === provider);
  if (!rows[0] || !identity) throw notFound("Identity");
  if (!rows[0].has_password && identities.length === 1) {
    throw conflict(
      "INVALID_STATE",
      `${PROVIDER_NAMES[provider]} is your only sign-in: set a password by POST /auth/forgot-password first`,
    );
  }
  em.remove(identity);
  const { tenant_id: tenantId } = rows[0];
  await audit(work, { ...ofUser({ id: userId, tenantId }), action: "identity.unlinked", data: { provider } });
};
