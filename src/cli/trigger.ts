import type { Command } from "commander";
import { z } from "zod";
import { addKeyOptions, keyHeader, type KeyFlags, readKey, readUrl, urlOption } from "./api-flags.ts";
import { callApi, exitCodeOf } from "./call-api.ts";

/** Registers `trigger`; sets the process's exit code. */
export const addTriggerCommand = (program: Command): void => {
  addKeyOptions(
    program.command("trigger").argument("<type>", "such as player.level_up"),
    "scope webhooks:write",
  )
    .summary("make a test event of a type, for webhooks and `laurel listen`")
    .description(
      "Puts an example of the type into the project's feed and sends it to its webhooks. Its data have\n" +
        "test: true, and nothing else changes. GET /webhooks/event-types lists the types.",
    )
    .addOption(urlOption())
    .action(async (type: string, flags: KeyFlags & { url: string }) => {
      process.exitCode = await triggerCommand(type, flags);
    });
};

const Made = z.object({ event: z.object({ id: z.string() }), deliveries: z.int() });

const triggerCommand = (eventType: string, flags: KeyFlags & { url: string }): Promise<number> =>
  exitCodeOf(async () => {
    const api = {
      url: readUrl(flags.url),
      headers: keyHeader(readKey(flags)),
      stop: new AbortController().signal,
    };
    const { event, deliveries } = await callApi(api, "/webhook-events/test", Made, { eventType });
    const where = deliveries === 1 ? "1 webhook" : `${deliveries} webhooks`;
    process.stdout.write(`${eventType} ${event.id}: in the feed, and on its way to ${where}\n`);
    return 0;
  });
