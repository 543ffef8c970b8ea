import { z } from "zod";

/** Responses without a record. */
export const Accepted = z.object({ accepted: z.literal(true) });
export const Deleted = z.object({ deleted: z.literal(true) });
