import { setTimeout as delay } from "node:timers/promises";
import type { Command } from "commander";
import { z } from "zod";
import { newWebhookSecret } from "../domain/delivery/webhooks/registration.ts";
import { signedRequest } from "../domain/delivery/webhooks/delivering/signing.ts";
import { newId } from "../domain/kernel/ids.ts";
import { VERSION } from "../version.ts";
import {
  addKeyOptions,
  type KeyFlags,
  keyHeader,
  readKey,
  readUrl,
  urlOption,
  UsageError,
} from "./api-flags.ts";
import { type Api, callApi, exitCodeOf } from "./call-api.ts";

/** Interval between two polls of a feed without new events. */
const POLL_MS = 500;
const FORWARD_TIMEOUT_MS = 30_000;

type ListenFlags = KeyFlags & {
  url: string;
  forward?: string;
  events?: string;
  secret?: string;
  json?: boolean;
};

/** Registers `listen`; sets the process's exit code. */
export const addListenCommand = (program: Command): void => {
  addKeyOptions(program.command("listen"), "scope webhooks:read")
    .summary("show webhook events as they happen, and forward them to a program of yours")
    .description(
      "Reads the feed of a project's webhook events and shows each. With --forward it posts them, signed\n" +
        "as webhooks are, to an address that the server itself need not reach: for development.\n" +
        "It begins with what happens from now on, and ends at Ctrl-C.",
    )
    .addOption(urlOption())
    .option("--forward <url>", "where to post the events, such as http://localhost:9000/hooks")
    .option("--events <types>", "only these types or patterns, separated by commas")
    .option("--secret <secret>", "what to sign with (default: a new one, which is shown)")
    .option("--json", "show events as JSON lines")
    .action(async (flags: ListenFlags) => {
      process.exitCode = await listenCommand(flags);
    });
};

const Event = z.looseObject({ id: z.string(), type: z.string() });
const Page = z.object({
  data: z.array(Event),
  pagination: z.object({ nextCursor: z.string(), hasMore: z.boolean() }),
});
type Event = z.infer<typeof Event>;

type Listening = { api: Api; query: string; show: (event: Event) => Promise<void> };

const listenCommand = async (flags: ListenFlags): Promise<number> => {
  const stopping = new AbortController();
  const stop = (): void => stopping.abort();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stop);
  // The reader has gone, such as `head`.
  process.stdout.on("error", stop);
  return exitCodeOf(() =>
    listen(readFlags(flags, stopping.signal)).catch((error: unknown) => {
      if (stopping.signal.aborted) return 0;
      throw error;
    }),
  );
};

const readFlags = (flags: ListenFlags, stop: AbortSignal): Listening => {
  const api = { url: readUrl(flags.url), headers: keyHeader(readKey(flags)), stop, onWaiting: note };
  const query = flags.events === undefined ? "" : `&types=${encodeURIComponent(flags.events)}`;
  const { forward, json = false } = flags;
  const show = (event: Event, outcome = ""): void => {
    if (!json) return say(`${event.type} ${event.id}${outcome}`);
    // JSON lines are for programs: results are printed to standard error.
    say(JSON.stringify(event));
    if (outcome !== "") note(`${event.type} ${event.id}${outcome}`);
  };
  if (forward === undefined) return { api, query, show: async (event) => show(event) };
  if (!/^https?:$/.test(URL.parse(forward)?.protocol ?? ""))
    throw new UsageError("--forward must be an http or https address");
  const secret = flags.secret ?? newWebhookSecret();
  if (secret === "") throw new UsageError("--secret must not be empty");
  if (flags.secret === undefined) note(`signing with ${secret}`);
  const target = { url: forward, secret, stop };
  return { api, query, show: async (event) => show(event, ` -> ${await post(target, event)}`) };
};

const say = (line: string): void => void process.stdout.write(`${line}\n`);
/** Prints a message about the command itself, which is not part of its output. */
const note = (line: string): void => void process.stderr.write(`${line}\n`);

const listen = async ({ api, query, show }: Listening): Promise<never> => {
  const read = (cursor: string) => callApi(api, `/webhook-events?cursor=${cursor}${query}`, Page);
  let { nextCursor } = (await read("latest")).pagination;
  note(`ready: listening to ${api.url}, Ctrl-C ends it`);
  for (;;) {
    const { data, pagination } = await read(nextCursor);
    for (const event of data) {
      await show(event);
      api.stop.throwIfAborted();
    }
    ({ nextCursor } = pagination);
    if (!pagination.hasMore) await delay(POLL_MS, undefined, { signal: api.stop });
  }
};

type Target = { url: string; secret: string; stop: AbortSignal };

/** Posts an event like a webhook's first attempt. @returns the outcome, in words */
const post = async ({ url, secret, stop }: Target, event: Event): Promise<string> => {
  const body = JSON.stringify(event);
  const signable = { deliveryId: newId(), eventId: event.id, eventType: event.type, attempt: 1, body };
  const { headers } = signedRequest({ url, secrets: [secret], version: VERSION }, signable, new Date());
  const startedMs = performance.now();
  try {
    const response = await fetch(url, {
      method: "POST",
      redirect: "manual",
      headers,
      body,
      signal: AbortSignal.any([stop, AbortSignal.timeout(FORWARD_TIMEOUT_MS)]),
    });
    await response.body?.cancel();
    return `${response.status} (${Math.round(performance.now() - startedMs)} ms)`;
  } catch (error) {
    const { cause } = error as { cause?: { code?: string } };
    return stop.aborted ? "stopped" : `failed: ${cause?.code ?? (error as Error).message}`;
  }
};
