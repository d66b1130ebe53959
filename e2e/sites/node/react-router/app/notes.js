export const notes = ['Rye on Mondays'];
