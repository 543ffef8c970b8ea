/** Returns the LIKE pattern for text that contains `part`, whatever its characters. */
export const containing = (part: string): string => `%${part.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
