import { Refused } from "../checkers/history.ts";
import type { Answer } from "./client.ts";

/** Refusals that say nothing of an earlier attempt, or of this one. */
const UNSURE = new Set(["IDEMPOTENCY_IN_PROGRESS", "SERVICE_UNAVAILABLE", "INTERNAL_ERROR"]);

type Fault = { code?: string; reason?: string };

const refusalOf = ({ code, reason }: Fault): Error => {
  const names = [reason, code].flatMap((name) => name ?? []);
  const text = names.join(" ");
  return names.some((name) => UNSURE.has(name)) ? new Error(text) : new Refused(text);
};

/** The body of a success. @throws Refused when nothing was done, another error when nobody knows */
export const answered = ({ status, body }: Answer): Answer["body"] => {
  if (status < 300) return body;
  if (status >= 500) throw new Error(`${status} ${JSON.stringify(body)}`);
  throw refusalOf(body?.error ?? {});
};

/** As `answered`, for a request to a room, or a join with the SDK. */
export const replied = async <T>(request: Promise<T>): Promise<T> => {
  try {
    return await request;
  } catch (error) {
    const { reason, code } = error as { reason?: Fault; code?: number };
    if (typeof reason === "object") throw refusalOf(reason);
    if (typeof code === "number" && code >= 400 && code < 500 && code !== 429)
      throw new Refused((error as Error).message);
    throw error;
  }
};
