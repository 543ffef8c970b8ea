import { z } from "zod";

/** A time as integrators and designers send it: ISO 8601 with `Z` or an offset. */
export const IsoTime = z.iso.datetime({ offset: true });
