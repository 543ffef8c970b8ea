import { z } from "zod";
import { EventInput } from "../../domain/tracking/event-input.ts";

/**
 * One event, in the field names of a batch item or with `name` for eventType and `playerId` for the player.
 */
export const SingleEvent = EventInput.partial().extend({
  name: z.string().optional().meta({ description: "Another name of eventType" }),
  playerId: z
    .string()
    .optional()
    .meta({ description: "Id or externalUserId of the player, instead of externalUserId" }),
});

/** An item of a batch. */
export const BatchEvent = EventInput.meta({ id: "NewEvent" });
const { eventType, externalUserId, ...others } = EventInput.shape;
const aliases = SingleEvent.shape;
/** What a single event must have, as the document shows it; `readEvent` refuses what lacks it. */
export const DescribedEvent = z
  .intersection(
    z.object(others),
    z.intersection(
      z.union([z.object({ eventType }), z.object({ name: aliases.name.unwrap() })]),
      z.union([z.object({ externalUserId }), z.object({ playerId: aliases.playerId.unwrap() })]),
    ),
  )
  .meta({ id: "NewSingleEvent" });
