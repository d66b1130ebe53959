// The notes are kept on globalThis because each route has its own copy of this module.
export const notes = globalThis.bakeryNotes ??= ['Rye on Mondays'];
