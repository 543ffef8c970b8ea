import type { Command } from "commander";
import { z } from "zod";
import { keyHeader, type KeyFlags, readKey, readUrl, urlOption, UsageError } from "./api-flags.ts";
import { ApiFailure, callApi } from "./call-api.ts";

/** Registers `trigger`; sets the process's exit code. */
export const addTriggerCommand = (program: Command): void => {
  program
    .command("trigger")
    .summary("make a test event of a type, for webhooks and `laurel listen`")
    .description(
      "Puts an example of the type into the project's feed and sends it to its webhooks. Its data have\n" +
        "test: true, and nothing else changes. GET /webhooks/event-types lists the types.",
    )
    .argument("<type>", "such as player.level_up")
    .option("--key <key>", "the project's API key (scope webhooks:write)")
    .option("--key-file <file>", "read the key from a file instead: it then shows in no process list")
    .addOption(urlOption())
    .action(async (type: string, flags: KeyFlags & { url: string }) => {
      process.exitCode = await triggerCommand(type, flags);
    });
};

const Made = z.object({ event: z.object({ id: z.string() }), deliveries: z.int() });

const triggerCommand = async (eventType: string, flags: KeyFlags & { url: string }): Promise<number> => {
  try {
    const api = {
      url: readUrl(flags.url),
      headers: keyHeader(readKey(flags)),
      stop: new AbortController().signal,
    };
    const { event, deliveries } = await callApi(api, "/webhook-events/test", Made, { eventType });
    const where = deliveries === 1 ? "1 webhook" : `${deliveries} webhooks`;
    process.stdout.write(`${eventType} ${event.id}: in the feed, and on its way to ${where}\n`);
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError) && !(error instanceof ApiFailure)) throw error;
    process.stderr.write(`error: ${error.message}\n`);
    return error instanceof UsageError ? 2 : 1;
  }
};
