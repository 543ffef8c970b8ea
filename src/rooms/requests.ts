import type { MessageContext } from "@colyseus/core";
import type { z } from "zod";
import { errorObject, INTERNAL_ERROR, parse } from "./errors.ts";
import { CLOSE } from "./messages.ts";

type Closable = { leave(code: number, reason: string): void };

/**
 * Ends the session of a client whose message is none that the room takes. Core by itself would put the name
 * of the message into the reason.
 */
export const refuseMessage = (client: Closable): void => client.leave(CLOSE.ERROR, "invalid message");

/**
 * A handler of one message. What `run` returns is the answer; what it throws is the rejection, as the error
 * object. A message that wants no answer and is not valid ends the session.
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
