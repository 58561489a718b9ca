# Lists of the files that are built, stated folder by folder:
#
#     tutti_folder(LIST FOLDER FILE... [IF CONDITION FILE... [ELSE FILE...]]...)
#
# appends files of FOLDER to LIST_files: those before the first IF, and of the others those whose condition holds. A condition is a
# variable, or, in quotes, an expression for if(). Tests and fuzzers are found by their names (cmake/tests.cmake, cmake/fuzz.cmake): X_test.c
# or X_fuzz.c stands after an IF when it needs something, and where the condition does not hold, tests_left_out names it.
#
#     tutti_check_folders(FOLDER...)
#
# stops CMake if a C file in these folders, or in folders of theirs, is in no list.
#
#     tutti_take_all(LIST FOLDER)
#
# appends all C files of FOLDER, but tests and fuzzers, to LIST_files.
#
#     tutti_embed(SOURCE FILE...)
#
# says which files beside SOURCE it has as constants (base/embedded.h).

set(tests_and_fuzzers "_(test|fuzz)\\.c$")
set(named_files "")
set(tests_left_out "")

function(tutti_folder list folder)
    set(is_taken ON)
    set(awaits_condition OFF)
    foreach(word IN LISTS ARGN)
        set(file ${folder}/${word})
        if(awaits_condition)
            set(awaits_condition OFF)
            separate_arguments(condition UNIX_COMMAND "${word}")
            if(${condition})
                set(is_taken ON)
            else()
                set(is_taken OFF)
            endif()
        elseif(word STREQUAL "IF")
            set(awaits_condition ON)
        elseif(word STREQUAL "ELSE" AND is_taken)
            set(is_taken OFF)
        elseif(word STREQUAL "ELSE")
            set(is_taken ON)
        elseif(NOT EXISTS ${CMAKE_SOURCE_DIR}/${file})
            message(FATAL_ERROR "${file} is named here, and does not exist")
        elseif(file IN_LIST named_files)
            message(FATAL_ERROR "${file} is named twice")
        else()
            list(APPEND named_files ${file})
            if(file MATCHES "${tests_and_fuzzers}" AND NOT is_taken)
                list(APPEND tests_left_out ${file})
            elseif(NOT file MATCHES "${tests_and_fuzzers}" AND is_taken)
                list(APPEND ${list}_files ${file})
            endif()
        endif()
    endforeach()
    set(named_files ${named_files} PARENT_SCOPE)
    set(tests_left_out ${tests_left_out} PARENT_SCOPE)
    set(${list}_files ${${list}_files} PARENT_SCOPE)
endfunction()

function(tutti_check_folders)
    list(TRANSFORM ARGN APPEND /*.c OUTPUT_VARIABLE patterns)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${patterns})
    list(FILTER files EXCLUDE REGEX "${tests_and_fuzzers}")
    list(REMOVE_ITEM files ${named_files})
    if(files)
        set(advice "")
        foreach(file IN LISTS files)
            get_filename_component(folder ${file} DIRECTORY)
            get_filename_component(name ${file} NAME)
            string(APPEND advice "\n  ${file}: add ${name} to tutti_folder(... ${folder} ...)")
        endforeach()
        file(RELATIVE_PATH lists ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_LIST_FILE})
        message(FATAL_ERROR "${lists} does not name all files, and what it does not name is not built:${advice}")
    endif()
endfunction()

function(tutti_take_all list folder)
    file(GLOB files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${folder}/*.c)
    list(FILTER files EXCLUDE REGEX "${tests_and_fuzzers}")
    set(${list}_files ${${list}_files} ${files} PARENT_SCOPE)
endfunction()

function(tutti_embed source)
    get_filename_component(folder ${source} DIRECTORY)
    list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/${folder}/ OUTPUT_VARIABLE files)
    set_source_files_properties(${source} PROPERTIES
        COMPILE_DEFINITIONS EMBEDDED_FOLDER="${CMAKE_SOURCE_DIR}/${folder}/" OBJECT_DEPENDS "${files}")
endfunction()
