# cmake -DIN=file -DOUT=file.c -DSYMBOL=name -P EmbedText.cmake
cmake_minimum_required(VERSION 3.25)

file(READ "${IN}" text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
file(WRITE "${OUT}" "extern const char ${SYMBOL}[];\nconst char ${SYMBOL}[] =\n    \"${text}\";\n")
