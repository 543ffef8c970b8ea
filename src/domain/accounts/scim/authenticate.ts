import { sql } from "kysely";
import type { ApiKeyHasher } from "../api-keys/secret.ts";
import { isUseDue, noteUse } from "../auth/last-used.ts";
import { CACHE_TTL_MS, createShortCache } from "../auth/short-cache.ts";
import type { ApprovalStatus, ScimCaller } from "../../kernel/caller.ts";
import { type DomainError, unauthorized } from "../../kernel/errors.ts";
import type { Plan, PlanLimits } from "../../kernel/plans.ts";
import type { Transact, Work } from "../../kernel/work.ts";

type KnownToken = { caller: ScimCaller; freshForMs: number; isUseDue: boolean };

const known = createShortCache<KnownToken>(({ freshForMs }) => freshForMs);

/** Drops this process's cache of tokens; see CACHE_TTL_MS. */
export const forgetScimTokens = (): void => known.clear();

const refused = (): DomainError =>
  unauthorized("TOKEN_INVALID", "The SCIM token is unknown, revoked or expired; an OWNER makes another one");

/**
 * Authenticates the token of an identity provider, whose format is right. What is read of it is cached; see
 * CACHE_TTL_MS.
 * @param isFresh not from the cache: for requests that change something
 * @throws UNAUTHORIZED TOKEN_INVALID
 */
export const authenticateScim = async (
  transact: Transact,
  apiKeys: ApiKeyHasher,
  secret: string | undefined,
  { isFresh = false }: { isFresh?: boolean } = {},
): Promise<ScimCaller> => {
  if (secret === undefined) throw refused();
  const find = isFresh ? known.renew : known.get;
  const token = await find(apiKeys.hash(secret), () => load(transact, apiKeys.hashes(secret)));
  if (!token) throw refused();
  return token.caller;
};

const load = async (transact: Transact, hashes: string[]): Promise<KnownToken | undefined> => {
  const found = await transact((work) => read(work, hashes));
  if (found?.isUseDue) noteUse(transact, "scim_tokens", found.caller.tokenId);
  return found;
};

type Row = {
  id: string;
  tenant_id: string;
  expires_at: Date | string | null;
  last_used_at: Date | string | null;
  plan: Plan;
  plan_overrides: Partial<PlanLimits>;
  approval_status: ApprovalStatus;
};

const read = async ({ db, now }: Work, hashes: string[]): Promise<KnownToken | undefined> => {
  const { rows } = await sql<Row>`
    select s.id, s.tenant_id, s.expires_at, s.last_used_at, t.plan, t.plan_overrides, t.approval_status
    from scim_tokens s join tenants t on t.id = s.tenant_id
    where s.secret_hash = any(${`{${hashes.join(",")}}`}::text[]) and s.revoked_at is null
      and t.deleted_at is null`.execute(db);
  const [row] = rows;
  const leftMs = row?.expires_at == null ? Infinity : new Date(row.expires_at).getTime() - now.getTime();
  if (!row || leftMs <= 0) return undefined;
  const tenant = {
    plan: row.plan,
    planOverrides: row.plan_overrides,
    approvalStatus: row.approval_status,
  };
  return {
    caller: { kind: "scim", tokenId: row.id, tenantId: row.tenant_id, tenant },
    freshForMs: Math.min(leftMs, CACHE_TTL_MS),
    isUseDue: isUseDue(row.last_used_at, now),
  };
};
