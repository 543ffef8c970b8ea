import { sql } from "kysely";
import { hashRandomSecret, newRandomSecret } from "../auth/random-secret.ts";
import { invalid } from "../../kernel/errors.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Work } from "../../kernel/work.ts";
import type { Handshake, ProviderId } from "./provider.ts";

export const FLOWS = ["login", "signup", "link"] as const;
export type FlowKind = (typeof FLOWS)[number];
/** How the result of a sign-in is returned: tokens in the URL, or a code to exchange for them. */
export const RESPONSE_MODES = ["query", "code"] as const;
export type ResponseMode = (typeof RESPONSE_MODES)[number];

export const FLOW_SECONDS = 600;
/** From POST /auth/oauth/{provider}/link to opening the URL that it returns. */
export const TICKET_SECONDS = 120;

/** An OAuth flow in progress. */
export type Flow = {
  provider: ProviderId;
  flow: FlowKind;
  redirectUri: string;
  responseMode: ResponseMode;
  /** Only users of this tenant may complete it. */
  tenantId: string | null;
  /**
   * For a link: the user who will own the identity, and the requesting session, which must still be active.
   */
  userId: string | null;
  sessionId: string | null;
  invitationToken: string | null;
};

export const newHandshake = (): Handshake => ({
  state: newRandomSecret(),
  nonce: newRandomSecret(),
  codeVerifier: newRandomSecret(),
});

type Kept = { nonce: string; codeVerifier: string; invitationToken: string | null };
type Row = {
  provider: ProviderId;
  flow: FlowKind;
  redirect_uri: string;
  response_mode: ResponseMode;
  tenant_id: string | null;
  user_id: string | null;
  session_id: string | null;
  secrets: string | null;
};

const contextOf = (stateHash: string): string => `oauth_flows:${stateHash}`;

type NewRow = { stateHash: string; browserHash: string | null; secrets: string | null; seconds: number };

const insert = async ({ db, now }: Work, flow: Flow, row: NewRow): Promise<void> => {
  const expiresAt = new Date(now.getTime() + row.seconds * 1_000).toISOString();
  await sql`
    insert into oauth_flows (state_hash, browser_hash, provider, flow, redirect_uri, response_mode,
      tenant_id, user_id, session_id, secrets, expires_at)
    values (${row.stateHash}, ${row.browserHash}, ${flow.provider}, ${flow.flow}, ${flow.redirectUri},
      ${flow.responseMode}, ${flow.tenantId}::uuid, ${flow.userId}::uuid, ${flow.sessionId}::uuid,
      ${row.secrets}, ${expiresAt}::timestamptz)`.execute(db);
};

const flowOf = (row: Row, invitationToken: string | null): Flow => ({
  provider: row.provider,
  flow: row.flow,
  redirectUri: row.redirect_uri,
  responseMode: row.response_mode,
  tenantId: row.tenant_id,
  userId: row.user_id,
  sessionId: row.session_id,
  invitationToken,
});

/** Stores a flow until the browser with the cookie `browser` comes back with the state. */
export const storeFlow = async (
  work: Work,
  secretBox: SecretBox,
  flow: Flow,
  { handshake, browser }: { handshake: Handshake; browser: string },
): Promise<void> => {
  const { state, nonce, codeVerifier } = handshake;
  const stateHash = hashRandomSecret(state);
  const kept: Kept = { nonce, codeVerifier, invitationToken: flow.invitationToken };
  const secrets = secretBox.seal(JSON.stringify(kept), contextOf(stateHash));
  await insert(work, flow, {
    stateHash,
    browserHash: hashRandomSecret(browser),
    secrets,
    seconds: FLOW_SECONDS,
  });
};

/**
 * Consumes a flow: once, in time, and only in the browser that began it. Other requests leave it unchanged,
 * so that a leaked state cannot be used up.
 *
 * @throws VALIDATION_ERROR OAUTH_STATE_INVALID
 */
export const consumeFlow = async (
  { db, now }: Work,
  secretBox: SecretBox,
  { provider, state, browser }: { provider: ProviderId; state: string; browser: string },
): Promise<{ flow: Flow; handshake: Handshake }> => {
  const stateHash = hashRandomSecret(state);
  const { rows } = await sql<Row>`
    delete from oauth_flows
    where state_hash = ${stateHash} and browser_hash = ${hashRandomSecret(browser)} and provider = ${provider}
      and expires_at > ${now.toISOString()}::timestamptz
    returning provider, flow, redirect_uri, response_mode, tenant_id, user_id, session_id, secrets`.execute(
    db,
  );
  const row = rows[0];
  if (!row?.secrets) {
    throw invalid(
      "state",
      "is unknown, used, older than 10 minutes, or of another browser; start the sign-in again",
      "OAUTH_STATE_INVALID",
    );
  }
  const kept = JSON.parse(secretBox.open(row.secrets, contextOf(stateHash))) as Kept;
  const { nonce, codeVerifier, invitationToken } = kept;
  return { flow: flowOf(row, invitationToken), handshake: { state, nonce, codeVerifier } };
};

/** Stores a link until its URL is opened. The returned ticket is valid once, for two minutes. */
export const storeTicket = async (work: Work, flow: Flow): Promise<string> => {
  const ticket = newRandomSecret();
  const row = {
    stateHash: hashRandomSecret(ticket),
    browserHash: null,
    secrets: null,
    seconds: TICKET_SECONDS,
  };
  await insert(work, flow, row);
  return ticket;
};

/** @throws VALIDATION_ERROR OAUTH_STATE_INVALID */
export const consumeTicket = async (
  { db, now }: Work,
  { provider, ticket }: { provider: ProviderId; ticket: string },
): Promise<Flow> => {
  const { rows } = await sql<Row>`
    delete from oauth_flows
    where state_hash = ${hashRandomSecret(ticket)} and browser_hash is null and provider = ${provider}
      and expires_at > ${now.toISOString()}::timestamptz
    returning provider, flow, redirect_uri, response_mode, tenant_id, user_id, session_id, secrets`.execute(
    db,
  );
  if (rows[0]) return flowOf(rows[0], null);
  throw invalid(
    "ticket",
    "is unknown, used or older than 2 minutes; get a new URL from POST /auth/oauth/{provider}/link",
    "OAUTH_STATE_INVALID",
  );
};
