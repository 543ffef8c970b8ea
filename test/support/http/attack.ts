import { anAdmin } from "../app/admin.ts";
import type { TestApp } from "../app/app.ts";
import { indecency, type RawAnswer, type RawRequest, sendRaw } from "./hostile.ts";
import { type Call, credentialsFor, forgetLimits, type Operation } from "../operations/operations.ts";
import type { Side } from "../app/sides.ts";

/** Requests on their way at a time. */
const CONCURRENCY = 8;

export const methodOf = ({ route }: Operation): string => route.method.toUpperCase();

/** Tokens of calls that use their caller up, by operation. */
const ownTokens = new Map<string, string>();

/** A valid call of an operation, with its whole path. */
export const target = async (side: Side, operation: Operation): Promise<Call> => {
  const { access, id } = operation.route;
  const as = access !== "public" && access.scope !== undefined ? "key" : "user";
  const call = await operation.call(side, as);
  if (call.token !== undefined) ownTokens.set(id, call.token);
  return { ...call, path: `/api/v1${call.path}` };
};

type Battle = { api: TestApp; side: Side; problems: string[] };

/** Of the call, where it uses its caller up; else of the side, or of a super-admin. */
const credentialsOf = async (
  { api, side }: Battle,
  { route }: Operation,
): Promise<Record<string, string>> => {
  const { adminId, token: admin } = await anAdmin(api);
  await forgetLimits(api, side, adminId);
  const { key, token, headers } = credentialsFor(route, side, admin);
  const bearer = token === undefined ? undefined : (ownTokens.get(route.id) ?? token);
  return {
    ...headers,
    ...(key === undefined ? {} : { "X-API-Key": key }),
    ...(bearer === undefined ? {} : { Authorization: `Bearer ${bearer}` }),
  };
};

/** The last one was accepted and ended its caller's session, or used its limit up. */
const isUsedUp = ({ text }: RawAnswer): boolean =>
  text.includes('"SESSION_REVOKED"') || text.includes('"USER_RATE"') || text.includes('"ADMIN_RATE"');

/** Sends everything, a few at a time; what is indecent about the answers goes to `problems`. */
export const attackWith = async (
  battle: Battle,
  operation: Operation,
  requests: Iterable<RawRequest>,
): Promise<number> => {
  let credentials = credentialsOf(battle, operation);
  const waiting = requests[Symbol.iterator]();
  let sent = 0;
  const sendAs = (request: RawRequest, own: Record<string, string>): Promise<RawAnswer> => {
    const headers = { "Content-Type": "application/json", ...own, ...request.headers };
    return sendRaw(battle.api.url, { ...request, headers });
  };
  const renew = async (): Promise<Record<string, string>> => {
    if (ownTokens.has(operation.route.id)) await target(battle.side, operation);
    return credentialsOf(battle, operation);
  };
  const lane = async (): Promise<void> => {
    for (let next = waiting.next(); !next.done; next = waiting.next()) {
      const request = next.value;
      const used = credentials;
      let answer = await sendAs(request, await used);
      if (isUsedUp(answer)) {
        if (credentials === used) credentials = renew();
        answer = await sendAs(request, await credentials);
      }
      const problem = indecency(answer);
      const body = String(request.body ?? "").slice(0, 200);
      const shown = `${request.method} ${request.path.slice(0, 120)} ${body}`;
      if (problem !== undefined) battle.problems.push(`${shown}: ${problem}`);
      sent += 1;
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, lane));
  return sent;
};
