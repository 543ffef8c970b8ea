import { z } from "zod";

const HTTPS = /^https$/;
const URL_MAX = 2_048;

/** What a definition is called. */
export const Name = z.string().min(1).max(100);
/** What a definition says about itself. */
export const Description = z.string().max(2_000);
export const IconUrl = z.url({ protocol: HTTPS }).max(URL_MAX);
export const ImageUrl = z.url({ protocol: HTTPS, error: "must be an address of https" }).max(URL_MAX);
