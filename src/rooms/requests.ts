import type { MessageContext } from "@colyseus/core";
import type { z } from "zod";
import { errorObject, INTERNAL_ERROR, parse } from "./errors.ts";
import { CLOSE } from "./messages.ts";

type Closable = { leave(code: number, reason: string): void };

/**
 * Ends the session of a client that sent a message the room does not accept. Core itself would put the
 * message's name into the close reason.
 */
export const refuseMessage = (client: Closable): void => client.leave(CLOSE.ERROR, "invalid message");

/**
 * Creates the handler of one message. What `run` returns is the answer; what it throws is the rejection, as
 * the error object. An invalid message that expects no answer ends the session.
 */
export const requestHandler =
  <C extends Closable, B extends z.ZodType>(
    schema: B,
    run: (client: C, body: z.output<B>) => unknown,
    report: (error: unknown) => void,
  ) =>
  async (client: C, raw: unknown, context: MessageContext): Promise<unknown> => {
    try {
      return await run(client, parse(schema, raw));
    } catch (error) {
      report(error);
      if (context.id === undefined) refuseMessage(client);
      return context.reject(errorObject(error) ?? INTERNAL_ERROR);
    }
  };
