/**
 * Returns JSON texts of about `maxLength` characters each, which together have all `rows` of a table in their
 * order, and at least one text.
 */
export const tableTexts = (rows: readonly unknown[], maxLength: number): string[] => {
  const texts: string[] = [];
  let [pieces, length]: [string[], number] = [[], 0];
  for (const row of rows) {
    const piece = JSON.stringify(row);
    if (length > 0 && length + piece.length > maxLength) {
      texts.push(`[${pieces.join(",")}]`);
      [pieces, length] = [[], 0];
    }
    pieces.push(piece);
    length += piece.length;
  }
  return [...texts, `[${pieces.join(",")}]`];
};
