/** The pattern of LIKE for text that holds `part`, whatever characters `part` has. */
export const containing = (part: string): string => `%${part.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
